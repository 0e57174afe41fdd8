// Bytes to figures: the inverse of framework/page/data/codes.py, and how figures are written.

export const UNKNOWN = 255;
const DECODERS = {
  score: (b) => b / 200,
  load: (b) => b / 200,
  loss: (b) => (b / 200) ** 2,
  paused: (b) => b / 200,
  queue: (b) => 64 * Math.expm1(b / 16),
};

/** The figure that a byte stands for; null where it is not known. */
export function decoded(what, byte) {
  return byte === undefined || byte === UNKNOWN ? null : DECODERS[what](byte);
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

/** What a Packed holds: text (shape []), or the rows of a matrix as Uint8Arrays. */
export async function unpacked(packed) {
  const stream = new Blob([bytesOf(packed.zlib)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (!packed.shape.length) return new TextDecoder().decode(bytes);
  const [n, m] = packed.shape;
  for (let i = m; i < n * m; i++) bytes[i] = (bytes[i] + bytes[i - m]) & 255;
  return Array.from({ length: n }, (_, i) => bytes.subarray(i * m, (i + 1) * m));
}

/** Calls back when the size of `element` has changed, until `signal` ends it. */
export function onResize(element, call, signal) {
  const observer = new ResizeObserver(call);
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect());
}

const isNothing = (value) => value === null || value === undefined;

function scaled(value, units, digits) {
  const [unit, factor] =
    units.find(([, f]) => Math.abs(value) >= f * 0.9999) ?? (value ? units.at(-1) : units[0]);
  return `${Number((value / factor).toPrecision(digits))} ${unit}`;
}

/** 1.324 s, 56.1 ms, 17.7 us. */
export function seconds(value, digits = 4) {
  return isNothing(value)
    ? "-"
    : scaled(
        value,
        [
          ["s", 1],
          ["ms", 1e-3],
          ["us", 1e-6],
          ["ns", 1e-9],
        ],
        digits,
      );
}

export function bytes(value) {
  return isNothing(value)
    ? "-"
    : scaled(
        value,
        [
          ["GB", 1e9],
          ["MB", 1e6],
          ["kB", 1e3],
          ["B", 1],
        ],
        3,
      ).replace("0 GB", "0 B");
}

export function rate(value) {
  return isNothing(value)
    ? "-"
    : scaled(
        value,
        [
          ["Tb/s", 1e12],
          ["Gb/s", 1e9],
          ["Mb/s", 1e6],
          ["kb/s", 1e3],
        ],
        3,
      );
}

export function percent(value) {
  return isNothing(value) ? "-" : `${Number((100 * value).toPrecision(3))} %`;
}

/** A figure of a mask in words. */
export function written(mask, value) {
  if (isNothing(value)) return "not known";
  if (mask === "score") return value.toFixed(2);
  return mask === "queue" ? bytes(value) : percent(value);
}

/** Round positions for the ticks of an axis from 0 to `end`, about `n` of them. */
export function ticks(end, n) {
  if (!(end > 0)) return [0];
  const rough = end / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** An element of the page: `make("p", {class: "quiet"}, "text", child)`. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of a picture. */
export function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
