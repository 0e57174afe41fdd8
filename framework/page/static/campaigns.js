// The page of a study, a comparison or a chaos campaign: figures, bars with their spread, and tables.
import { make, makeSvg } from "./codes.js";
import { saveButtons } from "./save.js";
import { tableOf } from "./tables.js";

const BAR_ROW = 18;
const BAR_GAP = 8;
const BAR_LABELS = 320;
const BAR_WIDTH = 560;
const BAR_VALUES = 90;

/** Show `data` (PageData of kind `study`, `comparison` or `chaos`) in the element `root`. */
export function showCampaign(data, root) {
  root.replaceChildren();
  for (const plot of data.plots) {
    const section = campaignSection(root, plot.title);
    const svg = document.importNode(
      new DOMParser().parseFromString(plot.svg, "image/svg+xml").documentElement,
      true,
    );
    svg.setAttribute("class", "plot");
    const save = make("span", { class: "save" });
    saveButtons(save, plot.title, { svg: () => svg, csv: () => [plot.head, ...plot.rows] });
    section.append(save, svg);
  }
  for (const chart of data.charts) {
    const section = campaignSection(root, chart.title);
    section.append(legendOf(chart), barsOf(chart));
  }
  for (const table of data.tables) {
    const section = campaignSection(root, table.title);
    const digits = (cell) => (typeof cell === "number" ? Number(cell.toPrecision(4)) : (cell ?? "–"));
    section.append(
      tableOf(
        table.head,
        table.rows.map((row) => row.map(digits)),
        table.rows,
      ),
    );
    const save = make("span", { class: "save" });
    saveButtons(save, table.title, { csv: () => [table.head, ...table.rows] });
    section.append(save);
    if (table.note) section.append(make("p", { class: "note" }, table.note));
  }
}

function campaignSection(root, title) {
  const section = make("section", {});
  section.append(make("h2", {}, title));
  root.append(section);
  return section;
}

/** A row for every bar; those of one label stand together. A bar has the class `bar series<i>`. */
function barsOf(chart) {
  const top = Math.max(...chart.bars.map((bar) => Math.max(bar.value ?? 0, bar.high ?? 0)), 1e-12);
  const scale = (value) => (value / top) * BAR_WIDTH;
  const svg = makeSvg("svg", { role: "img", class: "bars" });
  svg.append(makeSvg("title", {}, `${chart.title}, ${chart.unit}: the table below has the figures`));
  let y = BAR_GAP;
  chart.bars.forEach((bar, i) => {
    const first = i === 0 || chart.bars[i - 1].label !== bar.label;
    if (first && i > 0) y += BAR_GAP;
    if (first) svg.append(labelOf(bar.label, y));
    svg.append(barOf(bar, y, scale));
    y += BAR_ROW;
  });
  svg.append(makeSvg("path", { class: "axis", d: `M${BAR_LABELS},0 V${y + BAR_GAP}` }));
  svg.setAttribute("viewBox", `0 0 ${BAR_LABELS + BAR_WIDTH + BAR_VALUES} ${y + BAR_GAP}`);
  return svg;
}

function labelOf(words, y) {
  const most = 44;
  const shown = words.length > most ? `${words.slice(0, most - 1)}…` : words;
  const text = makeSvg("text", { x: BAR_LABELS - 8, y: y + 0.7 * BAR_ROW, "text-anchor": "end" }, shown);
  text.append(makeSvg("title", {}, words));
  return text;
}

function barOf(bar, y, scale) {
  const group = makeSvg("g", { class: `bar series${bar.series}` });
  const words = bar.value === null ? "not known" : Number(bar.value.toPrecision(3)).toString();
  const width = scale(bar.value ?? 0);
  group.append(makeSvg("rect", { x: BAR_LABELS, y: y + 2, width, height: BAR_ROW - 4 }));
  let end = width;
  if (bar.low !== null && bar.high !== null && bar.high > bar.low) {
    const [low, high] = [BAR_LABELS + scale(bar.low), BAR_LABELS + scale(bar.high)];
    const [top, tall, middle] = [y + 4, BAR_ROW - 8, y + BAR_ROW / 2];
    const path = `M${low},${middle} H${high} M${low},${top} v${tall} M${high},${top} v${tall}`;
    group.append(makeSvg("path", { class: "spread", d: path }));
    end = Math.max(end, scale(bar.high));
  }
  group.append(makeSvg("text", { x: BAR_LABELS + end + 6, y: y + 0.7 * BAR_ROW }, words));
  return group;
}

function legendOf(chart) {
  const list = make("p", { class: "legend" });
  chart.series.forEach((name, i) => list.append(make("span", { class: `key series${i}` }, name), " "));
  list.append(make("span", { class: "unit" }, `in ${chart.unit}`));
  return list;
}
