// Puts the parts of the page together.
import { MASKS, load } from "./store.js";
import { onTheme } from "./colours.js";
import { mountMasks, mountPicture } from "./picture.js";
import { mountSlider, mountTimeline } from "./timeline.js";
import { mountCharts } from "./charts.js";
import { mountHeat, mountTraffic } from "./heat.js";
import { mountDetail } from "./detail.js";
import { mountDifference } from "./difference.js";
import { mountTables } from "./tables.js";
import { showCampaign } from "./campaigns.js";
import { make } from "./codes.js";
import { follow } from "./live.js";

const BETWEEN_MS = 500;
const at = (id) => document.getElementById(id);
const saveIn = (id) => at(id).querySelector(".save");

/** With no line break between a number and its unit. */
const unbroken = (text) => text.replace(/(\d) (?=(?:s|ms|us|ns|%)(?!\w))/g, "$1\u00a0");

/** What stands above the picture. */
function heading(store) {
  const { data, run } = store;
  document.title = `${data.title} - railweave`;
  at("title").textContent = run?.what ? `${run.what} · ${run.title}` : data.title;
  at("sentence").textContent = run ? unbroken(run.sentence) : data.sentence;
  if (data.runs.length > 1) {
    at("title").textContent = `${data.title}; shown: ${run.title}. ${run.sentence}`;
    at("sentence").textContent = data.sentence;
  }
  if (!run) return;
  at("verdict").textContent = run.state === "complete" ? run.verdict : run.state;
  at("verdict").className = `verdict ${run.state === "complete" ? run.verdict : run.state}`;
  at("reasons").replaceChildren(...run.reasons.map((text) => make("li", {}, text)));
  at("resolution").textContent = run.resolution;
}

/** Mounts everything for the run shown, until `signal` ends it; gives what draws it anew, first what follows
 *  the clock. */
function mounted(store, signal) {
  const buttons = { previous: at("previous"), play: at("play"), next: at("next") };
  const quick = [
    mountMasks(store, at("mask"), at("scale")),
    mountPicture(store, at("picture")),
    mountDetail(store, at("detail")),
    mountTimeline(store, at("timeline"), at("keys"), saveIn("time"), signal),
    mountSlider(store, at("instant"), at("when"), buttons, signal),
    mountHeat(store, at("heat"), at("heat-words"), saveIn("everything"), signal),
    mountCharts(store, at("charts"), signal),
    mountDifference(store, at("difference")),
  ];
  mountTraffic(store, at("traffic-map"), at("traffic-words"), saveIn("traffic"), signal);
  return { quick, tables: mountTables(store, at) };
}

/** Calls back once for all that happened since the last time, at most twice a second: a run that is followed
 *  wants the same processors. */
function seldom(call) {
  let due = false;
  let last = -Infinity;
  return () => {
    if (due) return;
    due = true;
    const drawing = () => {
      due = false;
      last = performance.now();
      call();
    };
    setTimeout(() => requestAnimationFrame(drawing), Math.max(0, last + BETWEEN_MS - performance.now()));
  };
}

/** Says, to tests, that the page stands. */
function drawn() {
  document.documentElement.dataset.ready = "1";
  document.body.dataset.ready = "true";
}

async function start() {
  const store = await load();
  window.railweave = store;
  heading(store);
  if (!store.run) {
    showCampaign(store.data, document.querySelector("main"));
    drawn();
    return;
  }
  let parts = null;
  let shown = new AbortController();
  const draw = () => {
    parts.quick.forEach((one) => one());
    drawn();
  };
  const anew = () => {
    heading(store);
    shown.abort();
    shown = new AbortController();
    parts = mounted(store, shown.signal);
    draw();
    parts.tables();
  };
  store.addEventListener("run", anew);
  store.addEventListener("state", draw);
  onTheme(draw);
  let drawnMasks = "";
  store.addEventListener(
    "data",
    seldom(() => {
      const masks = MASKS.filter((mask) => store.rows[mask]).join();
      if (masks !== drawnMasks) anew();
      drawnMasks = masks;
      heading(store);
      draw();
    }),
  );
  const tables = seldom(() => parts.tables());
  store.addEventListener("data", ({ detail }) => detail.kind !== "sample" && tables());
  anew();
  if (store.served && store.run.state === "running") follow(store, (text) => (at("live").textContent = text));
}

start();
