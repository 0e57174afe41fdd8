// Figures as files: SVG with its styles written out, or CSV.
import { make } from "./codes.js";

const STYLES = [
  "display",
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
];

/** Buttons in `host`: `makers.svg` gives an SVG element, `makers.csv` rows. */
export function saveButtons(host, name, makers) {
  const button = (kind, save) =>
    make(
      "button",
      { type: "button", title: `Save as ${kind.toUpperCase()}`, onclick: save },
      kind.toUpperCase(),
    );
  host.replaceChildren(
    ...(makers.svg
      ? [button("svg", () => download(`${name}.svg`, "image/svg+xml", svgText(makers.svg())))]
      : []),
    ...(makers.csv ? [button("csv", () => download(`${name}.csv`, "text/csv", csvText(makers.csv())))] : []),
  );
}

/** The picture as a document of its own: what the page's style sheet says is written into each shape. */
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    element.setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

/** Rows of cells; what a spreadsheet would take for a formula is quoted with an apostrophe. */
export function csvText(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+@-]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name.replace(/[^\w.-]+/g, "-") }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
