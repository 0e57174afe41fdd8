// The panel beside the picture: what was chosen, or what is worst now.
import { bytes, make, makeSvg, percent, rate, seconds, written } from "./codes.js";
import { MASK_WORDS, badness, colourOf } from "./colours.js";
import { MASKS } from "./store.js";

const MOST_LISTED = 10;
const MOST_RULES = 20;

/** Shows the chosen item in `host`; returns a function that does so anew. */
export function mountDetail(store, host) {
  return () => host.replaceChildren(...(store.chosen < 0 ? worstNow(store) : chosenItem(store)));
}

const maskOf = (store) => (MASKS.includes(store.state.mask) ? store.state.mask : "score");

/** A button that chooses an item, with its figure. */
function itemButton(store, item) {
  const mask = maskOf(store);
  const value = store.value(mask, item);
  const { name } = store.run.items;
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: "item-button", onclick: () => store.choose({ item: name[item] }) },
      make("i", { style: `background:${colourOf(mask, value)}` }),
      make("span", {}, name[item]),
      make("b", {}, written(mask, value)),
    ),
  );
}

function byBadness(store, items) {
  const mask = maskOf(store);
  const bad = new Map(items.map((item) => [item, badness(mask, store.value(mask, item)) ?? -1]));
  return items.sort((a, b) => bad.get(b) - bad.get(a) || a - b);
}

function worstNow(store) {
  const all = byBadness(
    store,
    store.run.items.name.map((_, item) => item),
  );
  return [
    make("h3", {}, `Worst now: ${MASK_WORDS[maskOf(store)]}`),
    make("ol", { class: "item-list" }, ...all.slice(0, MOST_LISTED).map((item) => itemButton(store, item))),
    make(
      "p",
      { class: "quiet" },
      "Click a shape of the picture, or use the arrow keys there, for its history.",
    ),
  ];
}

function chosenItem(store) {
  const { items, marks } = store.run;
  const item = store.chosen;
  const isElement = items.shape[item].startsWith("node");
  const back = isElement
    ? -1
    : items.shape.findIndex((shape, i) => shape === items.shape[item] && i !== item);
  const links = isElement ? items.element.flatMap((of, i) => (of === item ? [i] : [])) : [];
  const happened = marks.filter(
    (mark) => mark.items.includes(item) || links.some((link) => mark.items.includes(link)),
  );
  const row = (name, value) => [make("dt", {}, name), make("dd", {}, value)];
  const totals = [
    ...row("healthy rate", rate(items.rate_bps[item])),
    ...row("sent", bytes(items.bytes[item])),
    ...row("mean utilisation", percent(items.utilisation[item])),
    ...(isElement
      ? []
      : [
          ...row("lost", percent(items.loss[item])),
          ...row("dropped", `${items.drops[item] ?? "-"} packets`),
          ...(items.paused[item] === null
            ? []
            : row("paused", `${percent(items.paused[item])} of the time`)),
        ]),
    ...row("score at the end", items.h_score[item]?.toFixed(2) ?? "-"),
    ...(isElement
      ? []
      : row(
          "rate last measured",
          items.age_s[item] === null ? "never" : `${seconds(items.age_s[item])} before the end`,
        )),
  ];
  return [
    make(
      "button",
      { type: "button", class: "close", "aria-label": "let go", onclick: () => store.choose({ item: null }) },
      "×",
    ),
    make(
      "h3",
      {},
      items.name[item],
      make(
        "small",
        {},
        isElement ? ` ${items.kind[item]} of ${links.length} links` : ` link, kind ${items.kind[item]}`,
      ),
    ),
    ...MASKS.filter((mask) => store.has(mask)).map((mask) => historyOf(store, mask, item)),
    make("dl", { class: "totals" }, ...totals),
    ...(back >= 0
      ? [make("p", {}, "the other direction: "), make("ol", { class: "item-list" }, itemButton(store, back))]
      : []),
    ...(items.element[item] >= 0
      ? [make("p", {}, "part of"), make("ol", { class: "item-list" }, itemButton(store, items.element[item]))]
      : []),
    ...(happened.length
      ? [
          make("h4", {}, "What happened to it"),
          make(
            "ul",
            {},
            ...happened
              .slice(0, MOST_LISTED)
              .map((mark) => make("li", {}, `${seconds(mark.t_s)}: ${mark.text}`)),
          ),
        ]
      : []),
    ...(links.length
      ? [
          make("h4", {}, "Its links, worst first"),
          make(
            "ol",
            { class: "item-list" },
            ...byBadness(store, links)
              .slice(0, MOST_LISTED)
              .map((link) => itemButton(store, link)),
          ),
        ]
      : []),
    ...rulesOf(store, item),
  ];
}

/** The rules that a switch held at the end; of a link those by which its sender uses it. */
function rulesOf(store, item) {
  const { name, shape } = store.run.items;
  const heading = make("h4", {}, "OpenFlow rules at the end");
  const { rules, no_rules: why } = store.run;
  if (!rules) return why ? [heading, make("p", { class: "quiet" }, why)] : [];
  const isElement = shape[item].startsWith("node");
  const sender = name[item].split("->")[0];
  const of = isElement ? rules[shape[item].slice(4)] : rules.find((one) => one.name === sender);
  const flows = of.flows.filter((flow) => isElement || leadsTo(of, flow) === name[item]);
  const total = of.ingress + of.transit + of.drop;
  const kinds = [
    [of.ingress, "for what its host sends"],
    [of.transit, "for what passes through"],
    [of.drop, "to drop what has no route"],
  ];
  const parts = kinds.filter(([count]) => count).map(([count, what]) => `${count} ${what}`);
  const words = isElement
    ? `${total || "none"} in switch ${of.name}${parts.length ? `: ${parts.join(", ")}` : ""}`
    : `${flows.length || "none"} of the ${total} in switch ${of.name} send over this link`;
  const listed = of.flows.length < total ? `, as far as the ${of.flows.length} that are kept show` : "";
  const left = flows.length > MOST_RULES ? `; the first ${MOST_RULES}` : "";
  const line = (flow) => {
    const broken = flow.split(/(?<=,)/).flatMap((part) => [part, make("wbr")]);
    const to = leadsTo(of, flow);
    return make("li", {}, make("code", {}, ...broken), isElement && to ? ` → ${to.split("->").at(-1)}` : "");
  };
  return [
    heading,
    make("p", { class: "quiet" }, `${words}${listed}${left}.`),
    make("ol", { class: "item-list rules" }, ...flows.slice(0, MOST_RULES).map(line)),
  ];
}

/** The link, or host, that a rule sends packets to. */
function leadsTo(of, flow) {
  const back = /[=,]in_port$/.test(flow) ? /in_port=(\d+)/ : /output:(\d+)/;
  return of.ports[back.exec(flow)?.[1]];
}

/** A small chart of one figure over the run, with the present value beside it. */
function historyOf(store, mask, item) {
  const times = store.run.series.t_s;
  const [width, height] = [200, 34];
  const values = times.map((_, i) => store.value(mask, item, i));
  const top = mask === "queue" ? Math.max(1, ...values) : mask === "loss" ? Math.max(0.01, ...values) : 1;
  const x = (t) => (width * t) / (store.run.end_s || 1);
  const y = (value) => height - 2 - (height - 4) * Math.min(1, value / top);
  let path = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const [from, to, at] = [x(times[i - 1] ?? 0), x(times[i]), y(value)].map((place) => place.toFixed(1));
    path += `${path ? "L" : "M"}${from},${at}L${to},${at}`;
  });
  const chart = makeSvg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      class: "spark",
      role: "img",
      "aria-label": `${MASK_WORDS[mask]} of ${store.run.items.name[item]} over the run`,
    },
    makeSvg("path", { d: path || "M0,0", class: "curve" }),
    makeSvg("line", { x1: x(store.now), x2: x(store.now), y1: 0, y2: height, class: "now" }),
  );
  const value = store.value(mask, item);
  return make(
    "div",
    { class: "history" },
    make("span", {}, MASK_WORDS[mask]),
    chart,
    make("b", {}, written(mask, value)),
  );
}
