"""The pages of comparisons and chaos campaigns: a sentence, bars and a table."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import cast

from railweave.framework.judging.key_figures import ONE_IN, percentile
from railweave.framework.page.data.page_data import Bar, BarChart, PageData, Table
from railweave.framework.results.figures import Accuracy
from railweave.framework.studies.campaigns import Campaign, ChaosRun, read_campaign
from railweave.framework.studies.comparison import Comparison
from railweave.framework.studies.shared_rails import SharedRails

CHARTED = 100
"""Bars a chart has at most; tables have a row for every run."""
SEEN, ANSWERED = "published scores show the fault", "routes that avoid it are in use"


def campaign_page(path: Path) -> PageData:
    """Of a file that `compare --json`, `compare --jobs --json` or `chaos --json` wrote. Raises InputError."""
    campaign = read_campaign(path)
    kind = type(campaign.rows[0])
    title, sentence, charts, tables = _PAGES[kind](campaign)
    return PageData(
        kind="chaos" if kind is ChaosRun else "comparison",
        title=title,
        sentence=sentence,
        charts=charts,
        tables=tables,
    )


Content = tuple[str, str, tuple[BarChart, ...], tuple[Table, ...]]


def _of_routers(campaign: Campaign) -> Content:
    rows = cast(Sequence[Comparison], campaign.rows)
    names = [row.variant.name for row in rows]
    bars = [Bar(row.variant.name, 0, row.healthy_us, None, None) for row in rows]
    bars += [Bar(row.variant.name, 1, row.faulted_us, *(row.spread_us or (None, None))) for row in rows]
    bars.sort(key=lambda bar: names.index(bar.label))
    table = Table(
        "Routers",
        ("router", "runs", "before us", "after us", "lowest", "highest", "speedup", "wrong", "verdicts"),
        tuple(
            (row.variant.name, row.repeats, row.healthy_us, row.faulted_us, *(row.spread_us or (None, None)),
             row.ratio, row.wrong, ", ".join(sorted(set(row.verdicts))))
            for row in rows
        ),
        "Medians of iterations, at declared rates; after the fault the later half of them. lowest, highest: "
        "medians of a single run. speedup: relative to the first row.",
    )  # fmt: skip
    parts = ("before the fault", "after the fault")
    chart = BarChart("Time of an iteration", "us, declared", parts, tuple(bars[:CHARTED]))
    return f"Routers on {_fabric(campaign)}", _fastest(campaign, rows), (chart,), (table,)


def _fastest(campaign: Campaign, rows: Sequence[Comparison]) -> str:
    bad = [row.variant.name for row in rows if row.wrong or "invalid" in row.verdicts]
    warning = f" Not valid: {', '.join(bad)}." if bad else ""
    after = [row for row in rows if row.faulted_us is not None]
    before = [row for row in rows if row.healthy_us is not None]
    if not after and not before:
        return f"No run has an iteration.{warning}"
    if not after:
        best = min(before, key=lambda row: row.healthy_us or 0.0)
        return f"Without a fault {best.variant.name} takes {best.healthy_us:.4g} us an iteration.{warning}"
    best = min(after, key=lambda row: row.faulted_us or 0.0)
    gain = f", {best.ratio:.3g} times as fast as {rows[0].variant.name}" if best.ratio else ""
    healthy = f" Before it took {best.healthy_us:.4g} us." if best.healthy_us is not None else ""
    faults = "; ".join(map(str, campaign.experiment.get("faults") or ()))
    when = f"After “{faults}”" if faults else "In the end"
    return (
        f"{when} {best.variant.name} takes {best.faulted_us:.4g} us an iteration"
        f"{gain if best is not rows[0] else ''}.{healthy}{warning}"
    )


def _of_jobs(campaign: Campaign) -> Content:
    rows = cast(Sequence[SharedRails], campaign.rows)
    bars = [
        Bar(f"{row.percent} % of rails", job, row.interference[job], *(row.spread or (None, None)))
        for row in rows
        for job in (0, 1)
    ]
    table = Table(
        "Two jobs",
        ("rails of both", "runs", "first", "second", "lowest", "highest", "fairness", "wrong", "verdicts"),
        tuple(
            (f"{row.percent} %", row.repeats, *row.interference, *(row.spread or (None, None)), row.fairness,
             row.wrong, ", ".join(sorted(set(row.verdicts))))
            for row in rows
        ),
        "Interference: time of an iteration in company over that alone. fairness: Jain's index, 1 where both "
        "lose alike.",
    )  # fmt: skip
    measured = [
        (max(x), row.percent) for row in rows if (x := [y for y in row.interference if y is not None])
    ]
    sentence = "No run says what two jobs cost each other."
    if measured:
        most, percent = max(measured)
        sentence = f"Two equal jobs take {most:.3g} times as long with {percent} % of their rails in common."
    chart = BarChart("Interference", "times the time alone", ("first job", "second job"), tuple(bars))
    return f"Two jobs on {_fabric(campaign)}", sentence, (chart,), (table,)


def _of_chaos(campaign: Campaign) -> Content:
    rows = cast(Sequence[ChaosRun], campaign.rows)
    faults = [(row, fault) for row in rows for fault in row.timed_faults]
    bars = [
        Bar(f"{row.number}: {fault.text}", i, seconds)
        for row, fault in faults
        for i, seconds in enumerate((fault.detected_s, fault.recovered_s))
        if seconds is not None
    ]
    table = Table(
        "Runs",
        ("run", "faults", "expected", "ended", "seconds", "verdict", "wrong", "precision", "recall"),
        tuple(
            (row.number, "; ".join(row.faults), row.expected, _ending(row), round(row.seconds, 1),
             row.verdict, row.wrong, accuracy.precision, accuracy.recall)
            for row in rows
            for accuracy in (row.accuracy or Accuracy(None, None),)
        ),
        "precision, recall: of what the scores reported degraded, against the ground truth of the faults.",
    )  # fmt: skip
    left_out = f" (the first {CHARTED} of {len(bars)})" if len(bars) > CHARTED else ""
    chart = BarChart(f"Seconds after a fault{left_out}", "s", (SEEN, ANSWERED), tuple(bars[:CHARTED]))
    return f"Random faults on {_fabric(campaign)}", _endings(rows), (chart,) * bool(bars), (table,)


def _endings(rows: Sequence[ChaosRun]) -> str:
    bad = [row for row in rows if row.why is not None]
    failed = sum(row.why is None and row.error is not None for row in rows)
    words = f"{'All' if not bad else f'{len(rows) - len(bad)} of'} {len(rows)} runs ended as expected"
    words += f", {failed} of them by failing." if failed else "."
    if bad:
        words += f" Run {bad[0].number} did not: {bad[0].why}."
    faults = [fault for row in rows for fault in row.timed_faults]
    took = [fault.detected_s for fault in faults if fault.detected_s is not None]
    answered = [fault.recovered_s for fault in faults if fault.recovered_s is not None]
    if took:
        words += f" Faults were seen after {median(took):.2g} s (median of {len(took)})."
    if answered:
        rare = percentile(answered, 99) if len(answered) >= ONE_IN else None
        after, which = (max(answered), "longest") if rare is None else (rare, "P99")
        words += f" Routes that answer them were in use after {after:.2g} s ({which} of {len(answered)})."
    return words


def _ending(row: ChaosRun) -> str:
    if row.why is not None:
        return f"not as expected: {row.why}"
    return "completed" if row.error is None else f"failed as expected: {row.error}"


def _fabric(campaign: Campaign) -> str:
    """`rail-only, 4 domains, 4 rails`: name and whole-numbered parameters of the topology."""
    topology = campaign.experiment.get("topology")
    if not isinstance(topology, dict):
        return "an unknown fabric"
    sizes = [f"{value} {key}" for key, value in topology.items() if isinstance(value, int) and key != "name"]
    return ", ".join([str(topology.get("name")), *sizes])


_PAGES: dict[type, Callable[[Campaign], Content]] = {
    Comparison: _of_routers,
    SharedRails: _of_jobs,
    ChaosRun: _of_chaos,
}
