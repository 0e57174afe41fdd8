// What is shown, compared with another instant, or with another run at the same point of its iterations.
import { make, seconds, written } from "./codes.js";
import { MASK_WORDS, badness } from "./colours.js";
import { MASKS } from "./store.js";

const BETTER = [70, 140, 200],
  SAME = [128, 128, 128],
  WORSE = [214, 40, 60];
const MOST_CHANGES = 12;
const SMALLEST_CHANGE = 0.01;

/** What is compared with: `run`, `t` on its clock, and both in `words`; null where nothing is. */
export function other(store) {
  const { against } = store.state;
  if (against === null || !MASKS.includes(store.state.mask)) return null;
  const [, number] = against.match(/^run(\d+)$/) ?? [];
  if (number === undefined) {
    const t = Number(against);
    return Number.isFinite(t) ? { run: store.run, t, words: `${seconds(t)} of the same run` } : null;
  }
  const run = store.data.runs[number];
  if (!run || run === store.run) return null;
  const t = sameProgress(store.run, run, store.now);
  return { run, t, words: `${seconds(t)} of ${run.title}, at the same point of its iterations` };
}

/** The time in `run` at which it is as far in the iteration of the same number as `shown` is at `t`. */
function sameProgress(shown, run, t) {
  const [a, b] = [shown.iterations, run.iterations];
  const i = a.begin_s.findLastIndex((begin) => begin <= t);
  const j = i < 0 ? -1 : b.number.findIndex((number, k) => number === a.number[i] && b.job[k] === a.job[i]);
  if (j < 0) return Math.min(t, run.end_s);
  return b.begin_s[j] + Math.min(1, (t - a.begin_s[i]) / a.seconds[i]) * b.seconds[j];
}

/** How an item differs: `now`, `then`, and `change`, from -1 (better) to 1 (worse); null where one of them is
 *  not known. */
export function changeOf(store, mask, item, before = other(store)) {
  const now = store.value(mask, item);
  const there = before.run.items.name.indexOf(store.run.items.name[item]);
  const then = there < 0 ? null : store.value(mask, there, store.instantAt(before.t, before.run), before.run);
  const change = now === null || then === null ? null : badness(mask, now) - badness(mask, then);
  return { now, then, change };
}

/** The colour of a change: blue better, grey the same, red worse; null as of figures that are not known. */
export function colourOfChange(change) {
  if (change === null) return "rgb(140, 140, 140)";
  const end = change < 0 ? BETTER : WORSE;
  const part = Math.sqrt(Math.min(1, Math.abs(change)));
  return `rgb(${SAME.map((c, i) => Math.round(c + part * (end[i] - c))).join(", ")})`;
}

/** Colours of changes, and what they mean. */
export const CHANGES = [
  [-1, "better"],
  [0, "the same"],
  [1, "worse"],
];

/** What to compare with, and the largest differences, in `host`; returns a function that shows them anew. */
export function mountDifference(store, host) {
  host.hidden = false;
  const bar = make("div", { class: "bar" }, make("h2", {}, "Difference"));
  const words = make("p", { class: "quiet" });
  const list = make("div");
  const runs = store.data.runs;
  if (runs.length > 1) {
    const options = runs.map((run, i) => make("option", { value: String(i) }, run.title));
    const select = make("select", {}, ...options);
    select.onchange = () => store.choose({ run: Number(select.value) });
    select.value = String(store.state.run);
    bar.append(make("label", {}, "shown run ", select));
  }
  const button = (text, choice) => {
    const one = make("button", { type: "button", onclick: () => store.choose({ against: choice() }) }, text);
    bar.append(one);
    return one;
  };
  button("Hold this instant", () => String(Number(store.now.toPrecision(6))));
  runs.forEach((run, i) => {
    if (run !== store.run) button(`Compare with ${run.title}`, () => `run${i}`);
  });
  const stop = button("Stop comparing", () => null);
  host.replaceChildren(bar, words, list);
  return () => {
    const before = other(store);
    stop.hidden = store.state.against === null;
    const mask = MASK_WORDS[store.state.mask];
    words.textContent = before
      ? `The picture shows the change: ${mask} at ${seconds(store.now)} against ${before.words}.`
      : "Hold an instant and move on: the picture then shows what has changed since.";
    list.replaceChildren(...(before ? [changes(store, before)] : []));
  };
}

function changes(store, before) {
  const { mask } = store.state;
  const found = store.run.items.name
    .map((name, item) => ({ name, ...changeOf(store, mask, item, before) }))
    .filter(({ change }) => change !== null && Math.abs(change) >= SMALLEST_CHANGE)
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  if (!found.length) return make("p", {}, "Nothing differs by more than 1 % of its scale.");
  const rows = found
    .slice(0, MOST_CHANGES)
    .map(({ name, then, now, change }) =>
      make(
        "tr",
        {},
        make("td", {}, name),
        make("td", { class: "number" }, written(mask, then)),
        make("td", { class: "number" }, written(mask, now)),
        make("td", {}, change < 0 ? "better" : "worse"),
      ),
    );
  const kinds = { "element or link": null, then: "number", now: "number", change: null };
  const head = Object.entries(kinds).map(([text, kind]) => make("th", { scope: "col", class: kind }, text));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  const more = found.length - rows.length;
  return make("div", {}, table, ...(more > 0 ? [make("p", { class: "quiet" }, `and ${more} more`)] : []));
}
