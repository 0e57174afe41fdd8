// Figures as colours: apart in lightness as well as in hue, 3:1 against both papers, for all kinds of sight.

export const MASK_WORDS = {
  score: "health",
  load: "utilisation",
  queue: "queue",
  loss: "loss",
  paused: "pauses",
};
const GOOD_TO_BAD = [
  [70, 140, 200],
  [196, 124, 0],
  [214, 40, 60],
];
const LITTLE_TO_MUCH = [
  [126, 142, 160],
  [78, 121, 190],
  [84, 39, 143],
];
const LITTLE_TO_MUCH_ON_DARK = [
  [95, 110, 130],
  [110, 150, 215],
  [225, 190, 255],
];
const NOT_KNOWN = [140, 140, 140];
/** Of lines in a chart and of jobs, in turn (after Okabe and Ito, darker where they are pale). */
export const SERIES = [
  "#0072b2",
  "#d55e00",
  "#008f68",
  "#b0568c",
  "#9a7200",
  "#3a8fc4",
  "#7a5fb5",
  "#6b6b6b",
];

const darkness = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => darkness.matches;
/** Calls back when the page turns dark or light, until `signal` ends it. */
export const onTheme = (call, signal) => darkness.addEventListener("change", call, { signal });

/** A colour of the page, such as --line, as canvases take it. */
export function pageColour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** Where a figure lies between the good end (0) and the bad end (1) of its colours; null where not known. */
export function badness(mask, value) {
  if (value === null) return null;
  if (mask === "score") return Math.max(0, 1 - value);
  if (mask === "load" || mask === "paused") return Math.min(1, value);
  if (mask === "loss") return Math.min(1, 2 * Math.sqrt(value));
  return Math.min(1, Math.log1p(value / 64) / Math.log1p(1e6 / 64));
}

function mixed(mask, bad) {
  if (bad === null) return NOT_KNOWN;
  const much = isDark() ? LITTLE_TO_MUCH_ON_DARK : LITTLE_TO_MUCH;
  const stops = mask === "score" || mask === "loss" ? GOOD_TO_BAD : much;
  const at = Math.min(bad, 0.9999) * (stops.length - 1);
  const [low, high, part] = [stops[Math.floor(at)], stops[Math.floor(at) + 1], at % 1];
  return low.map((c, i) => Math.round(c + part * (high[i] - c)));
}

/** [red, green, blue] of a figure. */
export const rgbOf = (mask, value) => mixed(mask, badness(mask, value));

/** The colour of a figure: `rgb(...)`; grey where it is not known. */
export const colourOf = (mask, value) => `rgb(${rgbOf(mask, value).join(", ")})`;

/** Figures that a scale of the mask shows, from good to bad. */
export const SCALES = {
  score: [1, 0.75, 0.5, 0.25, 0],
  load: [0, 0.25, 0.5, 0.75, 1],
  queue: [0, 1e3, 1e4, 1e5, 1e6],
  loss: [0, 0.001, 0.01, 0.1, 0.25],
  paused: [0, 0.25, 0.5, 0.75, 1],
};
