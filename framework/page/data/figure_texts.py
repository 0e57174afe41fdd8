"""The key figures of a run, in words; docs/results.md defines them."""

from collections.abc import Iterator, Mapping

from railweave.framework.page.data.page_data import Figure
from railweave.framework.page.data.sentence import both_clocks
from railweave.framework.results.figures import Row
from railweave.framework.results.percentiles import ResponseFigures
from railweave.framework.results.result import RunResult

UNKNOWN = ""
"""The text of a figure that is not known."""


def figures(result: RunResult) -> tuple[Figure, ...]:
    """Those that are known of it."""
    return tuple(figure for figure in key_figures(result) if figure.value != UNKNOWN)


def key_figures(result: RunResult) -> tuple[Figure, ...]:
    """All; of several jobs not how fast each was, which tables say."""
    speeds = () if result.jobs or not result.rows else _speeds(result.summary)
    return (*speeds, *_balance(result), *_disturbances(result))


def _speeds(row: Row) -> Iterator[Figure]:
    """Of the iterations of the largest size."""
    yield Figure("Iteration", f"{row.declared_time_us:.4g} us", "mean time at declared rates, largest size")
    times = row.time_figures
    middle = "" if times is None else f"{times.p50_us:.4g} / {times.p95_us:.4g} us"
    yield Figure("Iteration P50 / P95", middle, "50 % and 95 % of the iterations take no longer")
    rare = times is None or times.p99_us is None
    text = "" if times is None or rare else f"{times.p99_us:.4g} us"
    yield Figure("Iteration P99", text, "99 % take no longer; of 100 different times or more")
    repeated = "" if times is None else f"n {times.iterations}, CV {100 * times.cv:.2f} %"
    yield Figure("Repeatability", repeated, "iterations of this size; standard deviation over mean")
    landed = row.message_figures
    text = "" if landed is None else f"{landed.p50_us:.4g} / {landed.p95_us:.4g} / {landed.max_us:.4g} us"
    yield Figure("Messages P50 / P95 / max", text, "from an iteration's start until a message had landed")
    text = "" if landed is None or landed.p99_us is None else f"{landed.p99_us:.4g} us"
    yield Figure("Messages P99", text, "the same, of 100 different times or more; with kv: TTFT less a step")
    slower = None if row.slowdown is None else row.slowdown[0]
    text = "" if slower is None else f"{slower.p50:.3g} / {slower.p95:.3g} / {slower.max:.3g}"
    yield Figure("Slowdown P50 / P95 / max", text, "time of a message over its time alone on idle links")
    yield Figure("algbw", f"{row.algbw_gbs:.4g} GB/s", "size over declared time")
    mean = "" if row.busbw_gbs is None else f"{row.busbw_gbs:.4g} GB/s"
    yield Figure("busbw", mean, "bus bandwidth as nccl-tests define it, mean")
    yield from _busbw(row)
    ratio = f"{1 / row.ratio_to_bound:.2f}" if row.ratio_to_bound else ""
    yield Figure("JCT ratio", ratio, "mean time over the physical limit")


def _busbw(row: Row) -> Iterator[Figure]:
    if (busbw := row.busbw_figures) is None:
        yield Figure("busbw P5 / P50 / P95", "", "5, 50, 95 % of the iterations reach no more")
        return
    low, high = f"{busbw.p5_gbs:.4g} / {busbw.p50_gbs:.4g}", f"{busbw.p95_gbs:.4g}"
    yield Figure(
        "busbw P5 / P50 / P95", f"{low} / {high} GB/s", "5, 50, 95 % of the iterations reach no more"
    )
    rare = "" if busbw.p99_gbs is None else f"{busbw.p99_gbs:.4g} GB/s"
    yield Figure("busbw P99", rare, "99 % reach no more; of 100 different ones or more")
    meaning = f"standard deviation of busbw over its mean, {busbw.iterations} iterations"
    yield Figure("busbw CV", f"{100 * busbw.cv:.1f} %", meaning)


def _balance(result: RunResult) -> Iterator[Figure]:
    figures = result.key_figures
    meaning = "bytes of the most loaded link over the mean of its kind"
    yield Figure("MMR", _by_kind(figures.max_mean_ratio, ".2f"), meaning)
    by_kind = figures.link_fairness
    yield Figure("JFI of links", _by_kind(by_kind, ".3f"), "Jain's index of the bytes of links of one kind")
    if result.jobs:
        worst = "" if figures.interference is None else f"{figures.interference:.2f}"
        yield Figure("Interference", worst, "time in company over time alone, of the job that lost most")
        fair, subject = result.fairness, "the speeds of jobs, each relative to its own alone"
    else:
        fair = result.summary.rank_fairness if result.rows else None
        subject = "the throughput of ranks, mean of the iterations"
    name, text = f"JFI of {'jobs' if result.jobs else 'ranks'}", "" if fair is None else f"{fair:.3f}"
    yield Figure(name, text, f"Jain's index of {subject}")


def _by_kind(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{kind} {value:{form}}" for kind, value in values.items())


def _disturbances(result: RunResult) -> Iterator[Figure]:
    figures, scale = result.key_figures, result.fabric.rate_scale
    yield Figure("Retransmitted", _percent(figures.retransmission_rate), "of the packets sent")
    yield Figure(
        "Out of order", _percent(figures.out_of_order_rate), "arrived behind a later one of their pair"
    )
    yield Figure("Marked", _percent(figures.marked_rate), "of the packets sent, as they met long queues")
    trimmed = None if not result.rows else result.summary.trimmed
    yield Figure(
        "Trimmed", "" if trimmed is None else str(trimmed), "packets that full queues cut down to headers"
    )
    paused = ", ".join(str(row.pause_figures) for row in result.summaries if row.pause_figures)
    yield Figure("Pauses", paused, "of data by PFC; deep: paused links that waited for each other")
    queue = ""
    if figures.queue_p95_bytes is not None and figures.queue_max_bytes is not None:
        queue = f"{figures.queue_p95_bytes / 1e3:.3g} / {figures.queue_max_bytes / 1e3:.3g} kB"
    yield Figure("Queue P95 / max", queue, "the fullest queue: no more for 95 % of the time, and ever")
    yield Figure("Detection", _response(figures.detection, scale), "from a fault until the scores show it")
    meaning = "from a fault until routes that answer it are in use"
    yield Figure("Convergence", _response(figures.convergence, scale), meaning)
    rare = None if figures.convergence is None else figures.convergence.p99_s
    text = "" if rare is None else both_clocks(rare, scale)
    yield Figure("Failover P99", text, "the same, 99 % of 100 faults or more")
    yield Figure("Reroutes", str(len(result.reroutes)), "how often routes changed")
    wrong = f"{result.wrong} of {result.compared}" if result.compared else ""
    yield Figure("Wrong", wrong, "elements that differ from arithmetic")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"


def _response(times: ResponseFigures | None, scale: float) -> str:
    if times is None:
        return ""
    text = both_clocks(times.median_s, scale)
    return text if times.faults == 1 else f"{text}, {times.max_s:.2g} s at most, of {times.faults}"
