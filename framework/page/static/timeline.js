// The run's clock: iterations as bars, what happened as marks above them, and a slider over it.
import { make, makeSvg, onResize, seconds, ticks } from "./codes.js";
import { SERIES } from "./colours.js";
import { saveButtons } from "./save.js";

const HEIGHT = 158,
  LEFT = 66,
  RIGHT = 14,
  TOP = 50,
  BOTTOM = 24;
/** Of the slider, over the whole run. */
const STEPS = 400;
const LANES = { fault: 10, seen: 24, reroute: 38 };
const WORDS = { fault: "fault", seen: "seen in the scores", reroute: "routes changed" };
const PARTS = { before: "before the fault", during: "until it was answered", after: "after" };

/** Draws the timeline into `host`; returns a function that draws it anew. */
export function mountTimeline(store, host, legend, save, signal) {
  let drawn = null;
  const draw = () => {
    drawn = timeline(store, Math.max(300, host.clientWidth));
    host.replaceChildren(drawn);
    const keys = (group, words) =>
      words.map(([key, text]) => make("span", { class: `key ${group} ${key}` }, make("i"), text));
    const kinds = new Set(store.run.marks.map((mark) => mark.kind));
    const parts = new Set(store.run.iterations.part);
    legend.replaceChildren(
      ...(parts.size > 1 && store.run.jobs.length < 2
        ? keys(
            "iteration",
            Object.entries(PARTS).filter(([part]) => parts.has(part)),
          )
        : []),
      ...keys(
        "mark",
        Object.entries(WORDS).filter(([kind]) => kinds.has(kind)),
      ),
    );
  };
  onResize(host, draw, signal);
  saveButtons(save, `iterations-${store.run.title}`, {
    svg: () => drawn,
    csv: () => {
      const { iterations: done } = store.run;
      const columns = Object.values(done);
      return [Object.keys(done), ...done.number.map((_, i) => columns.map((column) => column[i]))];
    },
  });
  return draw;
}

/** The shape of a mark, around a point. */
export function markShape(kind, x, y) {
  if (kind === "fault") return makeSvg("path", { d: `M${x - 6},${y - 5}h12l-6,11z` });
  if (kind === "seen") return makeSvg("path", { d: `M${x},${y - 6}l6,6l-6,6l-6,-6z` });
  return makeSvg("circle", { cx: x, cy: y, r: 5 });
}

function timeline(store, width) {
  const { iterations: done, marks, end_s: end } = store.run;
  const longest = Math.max(...done.seconds.slice(0, 5000), 1e-12);
  const x = (t) => LEFT + ((width - LEFT - RIGHT) * t) / (end || 1);
  const jobs = Math.max(1, store.run.jobs.length);
  const lane = (HEIGHT - TOP - BOTTOM) / jobs;
  const base = (job) => HEIGHT - BOTTOM - lane * (jobs - 1 - job);
  const y = (s, job = jobs - 1) => base(job) - (lane * s) / (1.08 * longest);
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`,
    width,
    height: HEIGHT,
    role: "img",
    class: "timeline",
    "aria-label": `${done.number.length} iterations over ${seconds(end)}; ${marks.length} marks`,
  });
  store.run.jobs.forEach((job, i) => {
    svg.append(
      makeSvg("text", { x: LEFT - 6, y: base(i) - lane / 2 + 4, "text-anchor": "end" }, `job ${job.name}`),
    );
  });
  for (const s of jobs > 1 ? [0] : ticks(longest, 4)) {
    svg.append(makeSvg("line", { x1: LEFT, x2: width - RIGHT, y1: y(s), y2: y(s), class: "grid" }));
    if (jobs === 1)
      svg.append(makeSvg("text", { x: LEFT - 6, y: y(s) + 4, "text-anchor": "end" }, seconds(s)));
  }
  done.number.forEach((number, i) => {
    const [from, to] = [x(done.begin_s[i]), x(done.begin_s[i] + done.seconds[i])];
    const held = done.held_by[i] ? `, held by ${done.held_by[i]}` : "";
    const who = jobs > 1 ? `${store.run.jobs[done.job[i]]?.name}: ` : "";
    const job = jobs > 1 ? done.job[i] : 0;
    const top = y(done.seconds[i], job);
    svg.append(
      makeSvg(
        "rect",
        {
          x: from.toFixed(1),
          y: top.toFixed(1),
          width: Math.max(1, to - from - 1.5).toFixed(1),
          height: Math.max(0, base(job) - top).toFixed(1),
          class: `iteration ${done.part[i]}${jobs > 1 ? ` job job${done.job[i]}` : ""}`,
          style: jobs > 1 ? `fill:${SERIES[done.job[i] % SERIES.length]}` : null,
          "data-iteration": number,
          "data-held-by": done.held_by[i],
        },
        makeSvg("title", {}, `${who}iteration ${number}: ${seconds(done.seconds[i])}${held}`),
      ),
    );
  });
  for (const mark of marks) {
    if (!(mark.kind in LANES)) continue;
    const at = x(mark.t_s);
    svg.append(
      makeSvg(
        "g",
        { class: `mark ${mark.kind}` },
        makeSvg("line", { x1: at, x2: at, y1: LANES[mark.kind], y2: HEIGHT - BOTTOM }),
        markShape(mark.kind, at, LANES[mark.kind]),
        makeSvg("title", {}, `${seconds(mark.t_s)}: ${WORDS[mark.kind]}: ${mark.text}`),
      ),
    );
  }
  for (const t of ticks(end, Math.max(3, width / 130))) {
    svg.append(
      makeSvg("line", { x1: x(t), x2: x(t), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4, class: "grid" }),
    );
    const anchor = x(t) > width - 40 ? "end" : "middle";
    svg.append(makeSvg("text", { x: x(t), y: HEIGHT - 7, "text-anchor": anchor }, seconds(t)));
  }
  svg.append(
    makeSvg("line", { x1: x(store.now), x2: x(store.now), y1: 2, y2: HEIGHT - BOTTOM + 4, class: "now" }),
  );
  svg.addEventListener("click", (event) => {
    const t = ((event.clientX - svg.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT)) * end;
    store.choose({ t: Math.max(0, Math.min(end, t)) });
  });
  return svg;
}

/** The slider `input`, the time in words in `output`, and buttons to go from mark to mark and to play. */
export function mountSlider(store, input, output, buttons, signal) {
  let playing = null;
  const stop = () => {
    clearInterval(playing);
    playing = null;
    buttons.play.textContent = "Play";
  };
  signal.addEventListener("abort", stop);
  const times = () => store.run.series.t_s;
  const go = (i) => store.choose({ t: i >= times().length - 1 ? null : times()[Math.max(0, i)] });
  input.oninput = () => {
    const t = (Number(input.value) / STEPS) * store.run.end_s;
    store.choose({ t: Number(input.value) >= STEPS ? null : t });
  };
  buttons.play.onclick = () => {
    if (playing) return stop();
    if (store.state.t === null) go(0);
    buttons.play.textContent = "Pause";
    playing = setInterval(() => (store.instant >= times().length - 1 ? stop() : go(store.instant + 1)), 80);
    return undefined;
  };
  const toMark = (later) => {
    const at = store.run.marks
      .map((mark) => mark.t_s)
      .filter((t) => (later ? t > store.now + 1e-6 : t < store.now - 1e-6));
    if (at.length) store.choose({ t: later ? Math.min(...at) : Math.max(...at) });
  };
  buttons.previous.onclick = () => toMark(false);
  buttons.next.onclick = () => toMark(true);
  return () => {
    input.max = STEPS;
    input.disabled = times().length < 2;
    input.value = STEPS * Math.min(1, store.now / (store.run.end_s || 1));
    const last = store.state.t === null;
    output.textContent = last
      ? `${seconds(store.run.end_s)}, the ${store.run.state === "running" ? "present" : "end"}`
      : seconds(store.state.t);
    input.setAttribute("aria-valuetext", output.textContent);
  };
}
