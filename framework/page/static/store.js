// The data of a page and what is chosen in it. A live page applies events to the same
// shape that a report has.
import { UNKNOWN, bytesOf, decoded, unpacked } from "./codes.js";

export const MASKS = ["score", "load", "queue", "loss"];
const DEFAULTS = { run: 0, mask: "score", t: null, item: null, from: null, to: null, against: null };
const MOST_INSTANTS = 400;
const REPAIRS = /\b(restore|up|start)\b/;
const TOTALS = { score: "h_score", load: "utilisation", loss: "loss" };

/** The store, from the data in the page or from the server that sent it (`served`). */
export async function load() {
  const inline = document.getElementById("railweave-data");
  const data = inline ? JSON.parse(inline.textContent) : await (await fetch("data.json")).json();
  const store = new Store(data, !inline);
  await store.unpack();
  return store;
}

/** `run`: the RunPage shown. `rows[mask]`: a Uint8Array over the items for each instant of `t_s`. Fires
 *  `state` when something else is chosen, `data` when an event came, `run` when all is to be drawn anew. */
export class Store extends EventTarget {
  constructor(data, served = false) {
    super();
    Object.assign(this, { data, served, state: { ...DEFAULTS, ...fromHash() }, held: new Map() });
    addEventListener("hashchange", () => this.choose({ ...DEFAULTS, ...fromHash() }, false));
  }

  get run() {
    return this.data.runs[this.state.run] ?? this.data.runs[0];
  }

  get rows() {
    return this.held.get(this.run).rows;
  }

  get picture() {
    return this.held.get(this.run).picture;
  }

  /** Of each node, in order, the rules of its switch; empty where they are not known. */
  get rules() {
    return this.held.get(this.run).rules;
  }

  /** The data of a run that has ended, or a new snapshot, takes the place of what there is. */
  async replace(data) {
    this.data = data;
    await this.unpack();
    this.dispatchEvent(new Event("run"));
  }

  /** Unpacks matrices and pictures of all runs. */
  async unpack() {
    this.held.clear();
    for (const run of this.data.runs) {
      const rows = {};
      for (const mask of MASKS) rows[mask] = run.series[mask] ? await unpacked(run.series[mask]) : null;
      const picture = run.picture ? await unpacked(run.picture) : null;
      const routes = run.routes ? JSON.parse(await unpacked(run.routes.entries)) : [];
      const rules = run.rules ? JSON.parse(await unpacked(run.rules)) : [];
      this.held.set(run, { rows, picture, routes, rules });
    }
  }

  /** Something else is chosen; the address of the page follows. */
  choose(changes, address = true) {
    const before = this.state.run;
    Object.assign(this.state, changes);
    if (address) history.replaceState(null, "", toHash(this.state));
    this.dispatchEvent(new Event(this.state.run === before ? "state" : "run"));
  }

  /** The instant shown: the first one that ends at the chosen time or later, else the last. */
  get instant() {
    return this.instantAt(this.state.t);
  }

  instantAt(t) {
    const times = this.run.series.t_s;
    const i = t === null ? -1 : times.findIndex((end) => end >= t - 1e-9);
    return i < 0 ? times.length - 1 : i;
  }

  get now() {
    return this.state.t ?? this.run.end_s;
  }

  /** The figure of an item at an instant, of the whole run if none is known over time; null: unknown. */
  value(mask, item, instant = this.instant) {
    const rows = this.rows[mask];
    if (rows) return rows[instant] ? decoded(mask, rows[instant][item]) : null;
    return this.run.items[TOTALS[mask]]?.[item] ?? null;
  }

  /** Whether any item has a figure of this mask, or will have. */
  has(mask) {
    if (this.rows[mask] || this.run.state === "running") return true;
    return (this.run.items[TOTALS[mask]] ?? []).some((value) => value !== null);
  }

  get chosen() {
    return this.run.items.name.indexOf(this.state.item);
  }

  /** The paths of the chosen pair at the chosen time: [{weight, cables}]; of another where it has none ever.
   *  `senders`, `receivers`: the GPUs that have routes, and those to which `from` has. */
  get paths() {
    const { gpus } = this.run.routes;
    const { routes } = this.held.get(this.run);
    const chosen = (name, offered) => {
      const at = gpus.indexOf(this.state[name]);
      return offered.includes(at) ? at : offered[0];
    };
    const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
    const senders = sorted(routes.map((entry) => entry[1]));
    const from = chosen("from", senders);
    const receivers = sorted(routes.filter((entry) => entry[1] === from).map((entry) => entry[2]));
    const to = chosen("to", receivers);
    const ours = routes.filter((entry) => entry[1] === from && entry[2] === to);
    const since = ours.reduce((last, [t]) => (t <= this.now + 1e-9 ? Math.max(last, t) : last), 0);
    const found = ours.filter(([t, , , , cables]) => t === since && cables.length);
    const paths = found.map(([, , , weight, cables]) => ({ weight, cables }));
    return { from, to, senders, receivers, since, paths };
  }

  /** Applies an event of the run: a line of events.jsonl, or a sample (bytes of every item in base64). */
  apply(event) {
    const run = this.run;
    run.end_s = Math.max(run.end_s, event.t_s ?? event.end_s ?? 0);
    const mark = (kind, text) => run.marks.push({ t_s: event.t_s, kind, text, items: this.#named(text) });
    if (event.kind === "sample") this.#sample(event);
    else if (event.kind === "iteration") this.#iteration(event);
    else if (event.kind === "fault") mark("fault", event.text);
    else if (event.kind === "reroute") mark("reroute", `${event.pairs_changed} pairs, because ${event.why}`);
    else if (event.kind === "note") run.notes.push(event.text);
    if (event.kind !== "sample") run.events += 1;
    this.dispatchEvent(new CustomEvent("data", { detail: event }));
  }

  /** Items that a text names. */
  #named(text) {
    const words = new Set(text.split(/\s+/));
    return this.run.items.name.flatMap((name, item) => (words.has(name) ? [item] : []));
  }

  #sample(event) {
    if (this.run.series.t_s.length >= MOST_INSTANTS) this.#halve();
    const times = this.run.series.t_s;
    times.push(event.t_s);
    for (const mask of MASKS) {
      if (!event[mask]) continue;
      const none = () => new Uint8Array(this.run.items.name.length).fill(UNKNOWN);
      this.rows[mask] ??= times.slice(1).map(none);
      this.rows[mask].push(bytesOf(event[mask]));
    }
  }

  /** Of two instants the later stays, with its scores and the worse of both in all else. */
  #halve() {
    const { series } = this.run;
    series.t_s = series.t_s.filter((_, i) => i % 2);
    for (const mask of MASKS) {
      const rows = this.rows[mask];
      if (!rows) continue;
      const worse =
        mask === "score"
          ? (later) => later
          : (a, b) => (a === UNKNOWN ? b : b === UNKNOWN ? a : Math.max(a, b));
      this.rows[mask] = rows
        .filter((_, i) => i % 2)
        .map((row, i) => row.map((b, j) => worse(b, rows[2 * i][j])));
    }
  }

  /** Whether an iteration was before, during or after the faults, as judging/rows.py has it. */
  #part(begin, end) {
    const { marks } = this.run;
    const repairs = (mark) => mark.kind === "reroute" || (mark.kind === "fault" && REPAIRS.test(mark.text));
    const first = (marks) => Math.min(...marks.map((mark) => mark.t_s));
    const broken = first(marks.filter((mark) => mark.kind === "fault" && !repairs(mark)));
    const answered = first(marks.filter((mark) => repairs(mark) && mark.t_s >= broken));
    if (end <= broken + 1e-9 * Math.max(1, begin)) return "before";
    return begin >= answered ? "after" : "during";
  }

  #iteration(event) {
    const { run } = this;
    const done = run.iterations;
    const last = done.number.length - 1;
    const end = event.end_s ?? (last < 0 ? 0 : done.begin_s[last] + done.seconds[last]) + event.seconds;
    const entry = {
      number: event.iteration,
      job: event.job ?? 0,
      begin_s: end - event.seconds,
      seconds: event.seconds,
      wrong: event.wrong ?? null,
      part: this.#part(end - event.seconds, end),
    };
    for (const name of Object.keys(done)) done[name].push(entry[name] ?? null);
    run.end_s = Math.max(run.end_s, end);
    const of = run.planned === null ? "" : ` of ${run.planned}`;
    run.sentence = `The run is under way: ${done.number.length}${of} iterations have ended.`;
  }
}

function fromHash() {
  const words = new URLSearchParams(location.hash.slice(1));
  const state = {};
  for (const [name, word] of words) {
    if (name === "t" && Number.isFinite(parseFloat(word))) state.t = parseFloat(word);
    else if (name === "run" && /^\d+$/.test(word)) state.run = Number(word);
    else if (Object.hasOwn(DEFAULTS, name) && name !== "t" && name !== "run") state[name] = word;
  }
  return state;
}

function toHash(state) {
  const words = Object.entries(state).filter(([name, value]) => value !== null && value !== DEFAULTS[name]);
  return `#${new URLSearchParams(words)}`;
}
