// The data of a page and what is chosen in it. The messages of a run that goes on change the data.
import { bytesOf, decoded, unpacked } from "./codes.js";

export const MASKS = ["score", "load", "queue", "loss", "paused"];
const DEFAULTS = { run: 0, mask: "score", t: null, item: null, from: null, to: null, against: null };
const TOTALS = { score: "h_score", load: "utilisation", loss: "loss", paused: "paused" };

/** The store, from the data in the page or from the server that sent it (`served`). */
export async function load() {
  const inline = document.getElementById("railweave-data");
  const data = inline ? JSON.parse(inline.textContent) : await (await fetch("data.json")).json();
  return new Store(await unpackedRuns(data), !inline);
}

/** The data with matrices, pictures, routes and rules unpacked; of each run `rows[mask]`: a Uint8Array over
 *  the items for each instant of `series.t_s`, null where there is nothing. */
async function unpackedRuns(data) {
  for (const run of data.runs) {
    run.rows = {};
    for (const mask of MASKS) run.rows[mask] = run.series[mask] && (await unpacked(run.series[mask]));
    run.picture &&= await unpacked(run.picture);
    run.rules &&= JSON.parse(await unpacked(run.rules));
    if (run.routes) run.routes.entries = JSON.parse(await unpacked(run.routes.entries));
  }
  return data;
}

/** `run`: the RunPage shown. Fires `state` when something else is chosen, `data` when there is more of it,
 *  `run` when all is to be drawn anew. */
export class Store extends EventTarget {
  constructor(data, served = false) {
    super();
    Object.assign(this, { data, served, state: { ...DEFAULTS, ...fromHash() } });
    addEventListener("hashchange", () => this.choose({ ...DEFAULTS, ...fromHash() }, false));
  }

  get run() {
    return this.data.runs[this.state.run] ?? this.data.runs[0];
  }

  get rows() {
    return this.run.rows;
  }

  /** The data of a run that has ended, or a new snapshot, takes the place of what there is. */
  async replace(data) {
    const shown = () => [this.run.state, ...this.run.items.name].join();
    const before = shown();
    this.data = await unpackedRuns(data);
    this.dispatchEvent(new CustomEvent(shown() === before ? "data" : "run", { detail: {} }));
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

  instantAt(t, run = this.run) {
    const times = run.series.t_s;
    const i = t === null ? -1 : times.findIndex((end) => end >= t - 1e-9);
    return i < 0 ? times.length - 1 : i;
  }

  get now() {
    return this.state.t ?? this.run.end_s;
  }

  /** The figure of an item at an instant, of the whole run if none is known over time; null: unknown. */
  value(mask, item, instant = this.instant, run = this.run) {
    const rows = run.rows[mask];
    if (rows) return rows[instant] ? decoded(mask, rows[instant][item]) : null;
    return run.items[TOTALS[mask]]?.[item] ?? null;
  }

  /** Whether any item has a figure of this mask, or will have. */
  has(mask) {
    if (this.rows[mask] || (this.run.state === "running" && mask !== "paused")) return true;
    return (this.run.items[TOTALS[mask]] ?? []).some((value) => value !== null);
  }

  get chosen() {
    return this.run.items.name.indexOf(this.state.item);
  }

  /** The paths of the chosen pair at the chosen time: [{weight, cables}]; of another where it has none ever.
   *  `senders`, `receivers`: the GPUs that have routes, and those to which `from` has. */
  get paths() {
    const { gpus, entries: routes } = this.run.routes;
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

  /** Applies a message of the run: fields that it sets, entries that it adds to lists and columns. */
  apply(message) {
    const { run } = this;
    Object.assign(run, message.set);
    for (const [name, entry] of Object.entries(message.add)) {
      if (name === "series") this.#extend(entry);
      else if (Array.isArray(run[name])) run[name].push(entry);
      else for (const column of Object.keys(run[name])) run[name][column].push(entry[column] ?? null);
    }
    this.dispatchEvent(new CustomEvent("data", { detail: message }));
  }

  /** One more instant: its time and, of each mask, a byte for every item, in base64. */
  #extend({ t_s, ...rows }) {
    this.run.series.t_s.push(t_s);
    for (const [mask, row] of Object.entries(rows)) (this.rows[mask] ??= []).push(bytesOf(row));
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
