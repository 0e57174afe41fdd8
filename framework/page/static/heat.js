// Figures of every item over the whole run, and who sent to whom, as maps of colours.
import { bytes, make, percent, seconds, unpacked, written } from "./codes.js";
import { MASK_WORDS, badness, isDark, onTheme, rgbOf } from "./colours.js";
import { MASKS } from "./store.js";
import { saveButtons } from "./save.js";

const COLUMNS = 600;
const MOST_PIXELS = 500;

/** A row for each item, a column for each moment, in the colours of the mask; a click chooses both. */
export function mountHeat(store, host, words, save, signal) {
  const canvas = make("canvas", { class: "heat", role: "img" });
  host.replaceChildren(canvas);
  const rows = store.run.items.name.length;
  const mask = () =>
    MASKS.includes(store.state.mask) && store.rows[store.state.mask] ? store.state.mask : "score";
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const t = ((event.clientX - box.left) / box.width) * store.run.end_s;
    return {
      t,
      item: Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows))),
    };
  };
  const wordsOf = ({ t, item }) => {
    const figure = store.value(mask(), item, store.instantAt(t));
    return `${store.run.items.name[item]} at ${seconds(t)}: ${MASK_WORDS[mask()]} ${written(mask(), figure)}`;
  };
  canvas.onmousemove = (event) => words.replaceChildren(wordsOf(at(event)));
  canvas.onclick = (event) => {
    const { t, item } = at(event);
    store.choose({ t, item: store.run.items.name[item] });
  };
  saveButtons(save, `all-${store.run.title}`, {
    csv: () => [
      ["t_s", ...store.run.items.name],
      ...store.run.series.t_s.map((t, i) => [
        t,
        ...store.run.items.name.map((_, item) => store.value(mask(), item, i)),
      ]),
    ],
  });
  let drawn = "";
  const draw = () => {
    const now = [mask(), store.run.series.t_s.length, store.run.end_s, isDark()].join();
    canvas.closest("section").hidden = !store.rows[mask()];
    if (now === drawn || !store.rows[mask()]) return;
    drawn = now;
    canvas.width = COLUMNS;
    canvas.height = Math.min(rows, MOST_PIXELS);
    canvas.style.height = `${Math.max(60, Math.min(520, rows * 12))}px`;
    canvas.setAttribute(
      "aria-label",
      `${MASK_WORDS[mask()]} of ${rows} elements and links over ${seconds(store.run.end_s)}`,
    );
    const instants = Array.from({ length: COLUMNS }, (_, x) =>
      store.instantAt(((x + 0.5) / COLUMNS) * store.run.end_s),
    );
    const [what, per] = [mask(), rows / canvas.height];
    paintMap(canvas, (x, y) =>
      rgbOf(what, worstOf(store, what, instants[x], Math.floor(y * per), (y + 1) * per)),
    );
    const rest = "columns: the run's clock. A click chooses item and time.";
    words.textContent = `Rows: ${rows} items, elements first; ${rest}`;
  };
  onTheme(draw, signal);
  return draw;
}

/** The worst figure of the items from one to another, which share a row of pixels. */
function worstOf(store, mask, instant, from, to) {
  let worst = store.value(mask, from, instant);
  for (let item = from + 1; item < to - 1e-9; item++) {
    const value = store.value(mask, item, instant);
    if ((badness(mask, value) ?? -1) > (badness(mask, worst) ?? -1)) worst = value;
  }
  return worst;
}

function paintMap(canvas, colour) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let y = 0, at = 0; y < canvas.height; y++) {
    for (let x = 0; x < canvas.width; x++, at += 4) {
      image.data.set(colour(x, y), at);
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

/** Bytes from each GPU (row) to each other (column) in an iteration. */
export async function mountTraffic(store, host, words, save, signal) {
  const { traffic } = store.run;
  host.closest("section").hidden = !traffic;
  if (!traffic) return;
  const matrix = await unpacked(traffic.sent);
  if (signal.aborted) return;
  const amount = (x, y) => (matrix[y][x] / 200) * traffic.most_bytes;
  const canvas = make("canvas", {
    class: "heat traffic",
    role: "img",
    width: matrix.length,
    height: matrix.length,
    "aria-label": `bytes between ${matrix.length} GPUs in an iteration, ${bytes(traffic.most_bytes)} at most`,
  });
  host.replaceChildren(canvas);
  const draw = () =>
    paintMap(canvas, (x, y) =>
      matrix[y][x]
        ? rgbOf("load", amount(x, y) / traffic.most_bytes)
        : isDark()
          ? [20, 24, 29]
          : [255, 255, 255],
    );
  words.textContent = `Rows send, columns receive; ${bytes(traffic.most_bytes)} at most.`;
  canvas.onmousemove = (event) => {
    const box = canvas.getBoundingClientRect();
    const place = (part) => Math.min(matrix.length - 1, Math.max(0, Math.floor(part * matrix.length)));
    const [x, y] = [
      place((event.clientX - box.left) / box.width),
      place((event.clientY - box.top) / box.height),
    ];
    const share = percent(amount(x, y) / traffic.most_bytes);
    const pair = `${traffic.names[y]} to ${traffic.names[x]}`;
    words.textContent = `${pair}: ${bytes(amount(x, y))}, ${share} of the most`;
  };
  saveButtons(save, `traffic-${store.run.title}`, {
    csv: () => [
      ["from", ...traffic.names],
      ...traffic.names.map((from, y) => [from, ...traffic.names.map((_, x) => Math.round(amount(x, y)))]),
    ],
  });
  onTheme(draw, signal);
  draw();
}
