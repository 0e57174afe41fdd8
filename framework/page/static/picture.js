// The fabric: every shape coloured by the figures of its items at the chosen instant.
import { make, makeSvg, seconds, written } from "./codes.js";
import { MASK_WORDS, SCALES, SERIES, badness, colourOf } from "./colours.js";
import { CHANGES, changeOf, colourOfChange, other } from "./difference.js";
import { MASKS } from "./store.js";
import { saveButtons } from "./save.js";

/** Shows the picture in `host`; returns a function that colours it anew. */
export function mountPicture(store, host) {
  host.replaceChildren();
  if (!store.run.picture) {
    host.append(make("p", { class: "quiet" }, store.run.no_picture));
    return () => {};
  }
  const parsed = new DOMParser().parseFromString(store.run.picture, "image/svg+xml").documentElement;
  const svg = document.importNode(parsed, true);
  svg.setAttribute("role", "group");
  host.append(svg);
  const fit = fitted(svg);
  const shapes = shapesOf(store, svg);
  svg.classList.toggle("dense", svg.querySelectorAll("path.node").length > 200);
  for (const { name, parts } of shapes) {
    for (const part of parts) {
      part.classList.add("item");
      part.addEventListener("click", () => store.choose({ item: store.state.item === name ? null : name }));
    }
  }
  host.onkeydown = (event) => step(store, shapes, event);
  saveButtons(host.closest("section").querySelector(".save"), `fabric-${store.run.title}`, {
    svg: () => svg,
    csv: () => [
      ["item", "kind", ...MASKS.map((mask) => MASK_WORDS[mask])],
      ...store.run.items.name.map((name, i) => [
        name,
        store.run.items.kind[i],
        ...MASKS.map((mask) => store.value(mask, i)),
      ]),
    ],
  });
  return () => {
    paint(store, svg, shapes);
    fit();
  };
}

/** Cuts the picture to what is seen of it: its heading and legend come and go with the mask. */
function fitted(svg) {
  let plain = null;
  return () => {
    if (plain === svg.classList.contains("plain")) return;
    plain = svg.classList.contains("plain");
    const { x, y, width, height } = svg.getBBox();
    if (!width) return;
    svg.setAttribute("viewBox", `${x - 8} ${y - 8} ${width + 16} ${height + 16}`);
    svg.setAttribute("width", width + 16);
    svg.setAttribute("height", height + 16);
    svg.style.setProperty("--wide", `${1.5 * width}px`);
    svg.style.setProperty("--shape", `${width} / ${height}`);
  };
}

/** Arrow keys go from shape to shape, Escape lets go. */
function step(store, shapes, event) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") store.choose({ item: null });
  if (!by || !shapes.length) return;
  event.preventDefault();
  const at = shapes.findIndex(({ items }) => items.includes(store.chosen));
  const to = at < 0 ? (by > 0 ? 0 : shapes.length - 1) : (at + by + shapes.length) % shapes.length;
  store.choose({ item: shapes[to].name });
}

/** Per shape: its parts of the picture and the items (both directions of a cable) that they show. */
function shapesOf(store, svg) {
  const groups = new Map();
  store.run.items.shape.forEach((shape, item) => groups.set(shape, [...(groups.get(shape) ?? []), item]));
  const found = [...groups].map(([shape, items]) => {
    const parts = [...svg.querySelectorAll(`#${shape}, .${shape}`)];
    return { shape, name: store.run.items.name[items[0]], items, parts };
  });
  return found.filter(({ parts }) => parts.length);
}

/** The cables that are a shape, or that count for the element it is. */
function cablesOf(store, shape) {
  const { shape: shapes, element } = store.run.items;
  const own = shapes.filter((_, item) => shape.items.includes(element[item]));
  return new Set([shape.shape, ...own]);
}

/** What a shape shows: the worst of its items, words for each, and a colour. */
function look(store, mask, shape) {
  const { items } = shape;
  if (mask === "routes") {
    const passed = cablesOf(store, shape);
    const used = store.paths.paths.filter(({ cables }) => cables.some((cable) => passed.has(`link${cable}`)));
    const share = used.reduce((sum, { weight }) => sum + weight, 0);
    const colour = used.length ? SERIES[0] : "var(--line)";
    return {
      colour,
      bad: used.length ? 0.4 + 0.6 * share : 0,
      value: used.length ? share : "",
      worst: items[0],
    };
  }
  if (mask === "jobs") {
    const loads = store.run.jobs.map((job) => items.reduce((sum, item) => sum + (job.bytes?.[item] ?? 0), 0));
    const most = loads.indexOf(Math.max(...loads));
    const users = loads.filter((bytes) => bytes > 0).length;
    const colour = users === 0 ? "var(--line)" : users > 1 ? "var(--ink)" : SERIES[most % SERIES.length];
    return { colour, bad: users > 1 ? 1 : 0.4 * users, value: users, worst: items[0] };
  }
  const before = other(store);
  if (before) {
    const seen = items.map((item) => changeOf(store, mask, item, before).change);
    const size = Math.max(...seen.map((change) => Math.abs(change ?? 0)));
    const at = seen.findIndex((change) => Math.abs(change ?? 0) === size);
    return { colour: colourOfChange(seen[at]), bad: size, value: seen[at] ?? "", worst: items[at] };
  }
  const figures = items.map((item) => store.value(mask, item));
  const scores = figures.map((value) => badness(mask, value) ?? -1);
  const at = scores.indexOf(Math.max(...scores));
  return {
    colour: colourOf(mask, figures[at]),
    bad: Math.max(0, scores[at]),
    value: figures[at] ?? "",
    worst: items[at],
  };
}

function paint(store, svg, shapes) {
  const { mask } = store.state;
  svg.classList.toggle("plain", mask === "plain");
  for (const shape of shapes) {
    const named = MASKS.includes(mask) ? [mask] : MASKS.filter((one) => store.has(one));
    const words = shape.items.map((item) => {
      const figures = named.map((one) => `${MASK_WORDS[one]} ${written(one, store.value(one, item))}`);
      return `${store.run.items.name[item]}: ${figures.join(", ")}`;
    });
    const { colour, bad, value, worst } =
      mask === "plain" ? { colour: "", bad: 0, value: "", worst: shape.items[0] } : look(store, mask, shape);
    for (const part of shape.parts) {
      part.style.setProperty("--colour", colour);
      part.style.setProperty("--bad", bad);
      part.dataset.value = value;
      part.dataset.item = store.run.items.name[worst];
      part.classList.toggle("chosen", shape.items.includes(store.chosen));
      (part.querySelector("title") ?? part.appendChild(makeSvg("title"))).textContent = words.join("\n");
    }
  }
}

/** The masks as a group of radio buttons in `host`; and in `scale` what the colours mean. */
export function mountMasks(store, host, scale) {
  const offered = [
    ["plain", "layout"],
    ...MASKS.filter((mask) => store.has(mask)).map((mask) => [mask, MASK_WORDS[mask]]),
  ];
  if (store.run.routes) offered.push(["routes", "routes"]);
  if (store.run.jobs.some((job) => job.bytes)) offered.push(["jobs", "jobs"]);
  const radios = offered.map(([value, words]) =>
    make(
      "label",
      {},
      make("input", { type: "radio", name: "mask", value, onchange: () => store.choose({ mask: value }) }),
      make("span", {}, words),
    ),
  );
  host.replaceChildren(make("legend", {}, "Colours show"), ...radios);
  if (!offered.some(([value]) => value === store.state.mask)) store.state.mask = offered[1]?.[0] ?? "plain";
  return () => {
    const { mask } = store.state;
    for (const radio of host.querySelectorAll("input")) radio.checked = radio.value === mask;
    scale.replaceChildren(...swatches(store, mask));
  };
}

function swatches(store, mask) {
  const swatch = (colour, words) =>
    make("span", { class: "swatch" }, make("i", { style: `background:${colour}` }), words);
  if (mask === "jobs") {
    const names = store.run.jobs.map((job, i) => swatch(SERIES[i % SERIES.length], job.name));
    return [...names, swatch("var(--ink)", "several jobs")];
  }
  if (mask === "routes") return pairChoice(store);
  if (!MASKS.includes(mask)) return [];
  if (other(store)) return CHANGES.map(([change, words]) => swatch(colourOfChange(change), words));
  return [
    ...SCALES[mask].map((value) => swatch(colourOf(mask, value), written(mask, value))),
    swatch(colourOf(mask, null), "not known"),
  ];
}

/** Two lists of GPUs, and the path between those chosen, in words. */
function pairChoice(store) {
  const { gpus } = store.run.routes;
  const { from, to, senders, receivers, since, paths } = store.paths;
  const list = (end, offered, chosen) => {
    const option = (gpu) => make("option", { value: gpus[gpu], selected: gpu === chosen }, gpus[gpu]);
    const label = end === "from" ? "sending GPU" : "receiving GPU";
    const onchange = (event) => store.choose({ [end]: event.target.value });
    return make("select", { "aria-label": label, onchange }, ...offered.map(option));
  };
  const hops = paths.map(({ cables }) => cables.length);
  const many = paths.length > 1 ? `${paths.length} paths` : "one path";
  const words = paths.length ? `${many} of ${Math.min(...hops)} links` : "no path";
  const when = since > 0 ? `, since ${seconds(since)}` : ", the first routes";
  return ["from ", list("from", senders, from), " to ", list("to", receivers, to), words + when];
}
