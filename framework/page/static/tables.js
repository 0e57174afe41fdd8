// Figures in words: key figures, iterations, what happened, links, jobs, configuration.
import { bytes, make, percent, seconds } from "./codes.js";
import { saveButtons } from "./save.js";

const MOST_SHOWN = 200;

/** A table with a head; cells that are elements stay, numbers stand right. A click on a head sorts by it. */
export function tableOf(head, rows, keys = rows) {
  const body = make("tbody");
  const kind = (column) => (keys.some((row) => typeof row[column] === "number") ? "number" : null);
  const kinds = head.map((_, column) => kind(column));
  const line = (row) =>
    make("tr", {}, ...row.map((cell, column) => make("td", { class: kinds[column] }, cell ?? "-")));
  const show = (order) => body.replaceChildren(...order.slice(0, MOST_SHOWN).map((i) => line(rows[i])));
  const order = rows.map((_, i) => i);
  const sorted = (column, down) => (a, b) => {
    const [x, y] = [keys[a][column], keys[b][column]];
    return (
      (down ? -1 : 1) *
      (typeof x === "number" && typeof y === "number"
        ? x - y
        : String(x ?? "").localeCompare(String(y ?? "")))
    );
  };
  const heads = head.map((text, column) => {
    const cell = make("th", { scope: "col", class: kinds[column] }, make("button", { type: "button" }, text));
    cell.firstChild.onclick = () => {
      const down = cell.getAttribute("aria-sort") !== "descending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      show(order.sort(sorted(column, down)));
    };
    return cell;
  });
  show(order);
  const more =
    rows.length > MOST_SHOWN
      ? [make("p", { class: "quiet" }, `${MOST_SHOWN} of ${rows.length} rows; the CSV has them all.`)]
      : [];
  return make(
    "div",
    { class: "scroll" },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body),
    ...more,
  );
}

/** Puts a table and its buttons into a section; hides the section of a table without rows. */
function fill(section, name, head, rows, keys = rows) {
  section.hidden = !rows.length;
  if (!rows.length) return;
  section.querySelector(".table").replaceChildren(tableOf(head, rows, keys));
  saveButtons(section.querySelector(".save"), name, { csv: () => [head, ...keys] });
}

export function mountTables(store, at) {
  const draw = () => {
    const { run } = store;
    const name = run.title;
    at("kpis")
      .querySelector("dl")
      .replaceChildren(
        ...run.figures.map(({ name: what, value, meaning }) =>
          make(
            "div",
            { title: meaning },
            make("dt", {}, what),
            make("dd", {}, value),
            make("dd", { class: "quiet" }, meaning),
          ),
        ),
      );
    at("kpis").hidden = !run.figures.length;
    const done = run.iterations;
    const several = run.jobs.length > 1;
    const rows = done.number.map((number, i) => [
      ...(several ? [run.jobs[done.job[i]]?.name ?? done.job[i]] : []),
      number,
      done.begin_s[i],
      done.seconds[i],
      done.declared_us[i],
      done.busbw_gbs[i],
      done.limit[i],
      done.part[i],
      done.held_by[i] ?? "",
      done.wrong[i],
    ]);
    const shift = several ? 1 : 0;
    const words = rows.map((row) =>
      row.map((cell, i) => {
        if (cell === null) return "-";
        if (i === shift + 1 || i === shift + 2) return seconds(cell);
        if (i === shift + 3) return seconds(cell * 1e-6);
        if (i === shift + 4) return Number(cell.toPrecision(4));
        return i === shift + 5 ? percent(cell) : cell;
      }),
    );
    const head = [
      ...(several ? ["job"] : []),
      "iteration",
      "began",
      "took",
      "declared",
      "busbw GB/s",
      "of the limit",
      "part",
      "held by",
      "wrong",
    ];
    fill(at("iterations"), `iterations-${name}`, head, words, rows);
    fill(
      at("events"),
      `events-${name}`,
      ["time", "what", "text"],
      run.marks.map((m) => [seconds(m.t_s), m.kind, m.text]),
      run.marks.map((m) => [m.t_s, m.kind, m.text]),
    );
    drawLinks(store, at("links"), name);
    drawJobs(run, at("jobs"), name);
    at("notes").hidden = !run.notes.length;
    at("notes")
      .querySelector("ul")
      .replaceChildren(...run.notes.slice(0, MOST_SHOWN).map((text) => make("li", {}, text)));
    at("experiment").textContent = run.experiment;
    at("repeat").textContent = run.repeat;
    at("versions").replaceChildren(
      ...Object.entries({ page: store.data.made_by, ...run.versions }).flatMap(([what, version]) => [
        make("dt", {}, what),
        make("dd", {}, version),
      ]),
    );
  };
  return draw;
}

function drawLinks(store, section, name) {
  const { items } = store.run;
  const keys = items.name.map((item, i) => [
    item,
    items.kind[i],
    items.bytes[i],
    items.utilisation[i],
    items.loss[i],
    items.drops[i],
    items.h_score[i],
  ]);
  const known = keys.some((row) => row[2] !== null);
  const pick = (item) =>
    make("button", { type: "button", class: "plain-button", onclick: () => store.choose({ item }) }, item);
  const words = keys.map(([item, kind, sent, used, lost, drops, score]) => [
    pick(item),
    kind,
    bytes(sent),
    percent(used),
    percent(lost),
    drops ?? "-",
    score?.toFixed(2) ?? "-",
  ]);
  fill(
    section,
    `links-${name}`,
    ["element or link", "kind", "sent", "utilisation", "lost", "dropped", "score"],
    known ? words : [],
    keys,
  );
}

function drawJobs(run, section, name) {
  const figure = (value) => (value === null ? "-" : value.toFixed(2));
  const words = run.jobs.map((job) => [
    job.name,
    job.gpus.length,
    seconds(job.alone_us === null ? null : job.alone_us * 1e-6),
    seconds(job.together_us === null ? null : job.together_us * 1e-6),
    figure(job.interference),
    job.error ?? job.verdict,
  ]);
  fill(section, `jobs-${name}`, ["job", "GPUs", "alone", "in company", "interference", "verdict"], words);
}
