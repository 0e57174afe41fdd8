// Figures of several items over time, as line charts (uPlot), with what happened as lines across them.
import { make, onResize, seconds, written } from "./codes.js";
import { MASK_WORDS, SERIES, badness, onTheme, pageColour } from "./colours.js";
import { MASKS } from "./store.js";
import { saveButtons } from "./save.js";

const MOST_LINES = 8;
const ABOUT = {
  score: "h-scores: 1 is healthy, 0 is down",
  load: "bits sent over what the healthy rate allows; of a switch its busiest link",
  queue: "bytes waiting; of a switch those of its links together",
  loss: "share of packets lost",
  paused: "share of the time that data was paused (PFC); of a switch its longest paused link",
};

/** A chart for each mask that has figures over time, in `host`; returns a function that draws them anew. */
export function mountCharts(store, host, signal) {
  host.replaceChildren();
  const charts = MASKS.filter(
    (mask) => store.rows[mask] && store.run.series.t_s.length > 1 && (!SELDOM.has(mask) || any(store, mask)),
  ).map((mask) => chartOf(store, mask, host, signal));
  host.closest("section").hidden = !charts.length;
  const draw = () => charts.forEach((chart) => chart.draw());
  onTheme(() => charts.forEach((chart) => chart.rebuild()), signal);
  return draw;
}

/** Masks that have a chart only where there is something. */
const SELDOM = new Set(["loss", "paused"]);
const any = (store, mask) => store.rows[mask].some((row) => row.some((byte) => byte > 0 && byte < 255));

/** The chosen item, and those that were worst: elements where there are any. */
function linesOf(store, mask) {
  const { items } = store.run;
  const worst = items.name.map((_, item) => {
    let most = -1;
    for (let i = 0; i < store.rows[mask].length; i++)
      most = Math.max(most, badness(mask, store.value(mask, item, i)) ?? -1);
    return most;
  });
  const elements = items.element.some((of) => of >= 0);
  const offered = items.name
    .map((_, item) => item)
    .filter((item) => !elements || (items.element[item] < 0 && items.shape[item].startsWith("node")));
  const picked = offered
    .sort((a, b) => worst[b] - worst[a] || a - b)
    .slice(0, MOST_LINES)
    .sort((a, b) => a - b);
  return store.chosen >= 0 && !picked.includes(store.chosen)
    ? [...picked.slice(0, MOST_LINES - 1), store.chosen]
    : picked;
}

function chartOf(store, mask, host, signal) {
  const box = make("div", { class: "plot" });
  const save = make("span", { class: "save" });
  host.append(
    make("figure", {}, make("figcaption", {}, make("b", {}, MASK_WORDS[mask]), ` ${ABOUT[mask]}`, save), box),
  );
  let plot = null;
  let lines = [];
  let length = 0;
  const table = () => [
    store.run.series.t_s,
    ...lines.map((item) => store.run.series.t_s.map((_, i) => store.value(mask, item, i))),
  ];
  const rebuild = () => {
    plot?.destroy();
    lines = linesOf(store, mask);
    length = store.run.series.t_s.length;
    plot = new uPlot(options(store, mask, lines, box.clientWidth || 600), table(), box);
    plot.over.setAttribute("aria-hidden", "true");
    box.setAttribute("role", "img");
    box.setAttribute(
      "aria-label",
      `${MASK_WORDS[mask]} over time of ${lines.map((item) => store.run.items.name[item]).join(", ")}`,
    );
    plot.over.addEventListener("click", () =>
      store.choose({ t: store.run.series.t_s[plot.cursor.idx] ?? null }),
    );
  };
  onResize(box, () => plot?.setSize({ width: box.clientWidth, height: 190 }), signal);
  signal.addEventListener("abort", () => plot?.destroy());
  saveButtons(save, `${MASK_WORDS[mask]}-${store.run.title}`, {
    csv: () => {
      const columns = table();
      return [
        ["t_s", ...lines.map((item) => store.run.items.name[item])],
        ...columns[0].map((_, i) => columns.map((column) => column[i])),
      ];
    },
  });
  const draw = () => {
    const changed = linesOf(store, mask).join() !== lines.join();
    if (!plot || changed) rebuild();
    else if (length !== store.run.series.t_s.length) {
      length = store.run.series.t_s.length;
      plot.setData(table());
    } else plot.redraw(false);
  };
  return { draw, rebuild };
}

function options(store, mask, lines, width) {
  const [pale, line] = [pageColour("--pale"), pageColour("--line")];
  const axis = { stroke: pale, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const top = mask === "queue" ? [0, null] : [0, 1];
  return {
    width,
    height: 190,
    cursor: { sync: { key: "railweave" }, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { live: true },
    scales: {
      x: { time: false, range: () => [0, store.run.end_s || 1] },
      y: { range: (_, low, high) => [top[0], top[1] ?? Math.max(high * 1.05, 1)] },
    },
    axes: [
      { ...axis, values: (_, values) => values.map((v) => seconds(v)), space: 90 },
      { ...axis, size: 66, values: (_, values) => values.map((v) => written(mask, v)) },
    ],
    series: [
      { label: "time", value: (_, v) => (v === null ? "-" : seconds(v)) },
      ...lines.map((item, i) => ({
        label: store.run.items.name[item],
        stroke: SERIES[i % SERIES.length],
        width: item === store.chosen ? 3.5 : 1.8,
        dash: i % 2 ? [8, 3] : [],
        points: { show: false },
        value: (_, v) => (v === null ? "" : written(mask, v)),
        paths: uPlot.paths.stepped({ align: -1 }),
      })),
    ],
    hooks: { draw: [(plot) => across(store, plot)] },
  };
}

/** Faults and reroutes as lines across a chart, and the time that is shown. */
function across(store, plot) {
  const { ctx, bbox } = plot;
  const line = (t, colour, dash) => {
    const x = plot.valToPos(t, "x", true);
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  };
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const mark of store.run.marks.slice(0, 60)) {
    if (mark.kind === "fault") line(mark.t_s, pageColour("--fault"), []);
    else if (mark.kind === "reroute") line(mark.t_s, pageColour("--reroute"), [4, 4]);
  }
  line(store.now, pageColour("--ink"), []);
  ctx.restore();
}
