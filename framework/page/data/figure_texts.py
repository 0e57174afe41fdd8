"""The key figures of a run, in words; docs/report.md defines them."""

from collections.abc import Iterator

import numpy as np

from railweave.framework.page.data.page_data import Figure
from railweave.framework.page.data.sentence import both_clocks
from railweave.framework.results.figures import Row
from railweave.framework.results.result import RunResult


def figures(result: RunResult) -> tuple[Figure, ...]:
    """Those that are known of it; of several jobs not how fast each was, which tables say."""
    speeds = () if result.jobs else _speeds(result.summary)
    return (*speeds, *_balance(result), *_disturbances(result))


def _speeds(row: Row) -> Iterator[Figure]:
    """Of the iterations of the largest size."""
    yield Figure("Iteration", f"{row.declared_time_us:.4g} us", "mean time at declared rates, largest size")
    yield Figure("algbw", f"{row.algbw_gbs:.4g} GB/s", "size over declared time")
    if row.busbw_gbs is not None:
        yield Figure("busbw", f"{row.busbw_gbs:.4g} GB/s", "bus bandwidth as nccl-tests define it, mean")
    if (busbw := row.busbw_figures) is not None:
        low, high = f"{busbw.p5_gbs:.4g} / {busbw.p50_gbs:.4g}", f"{busbw.p95_gbs:.4g} / {busbw.p99_gbs:.4g}"
        yield Figure("busbw P5 / P50", f"{low} GB/s", "5 % and 50 % of the iterations reach no more")
        yield Figure("busbw P95 / P99", f"{high} GB/s", "95 % and 99 % of the iterations reach no more")
        meaning = f"standard deviation of busbw over its mean, {busbw.iterations} iterations"
        yield Figure("busbw CV", f"{100 * busbw.cv:.1f} %", meaning)
    if row.ratio_to_bound:
        yield Figure("JCT ratio", f"{1 / row.ratio_to_bound:.2f}", "mean time over the physical limit")


def _balance(result: RunResult) -> Iterator[Figure]:
    carried = np.array([link.bytes for link in result.links], float)
    if carried.sum():
        mmr = f"{carried.max() / carried.mean():.2f}"
        yield Figure("MMR", mmr, "bytes of the most loaded link over the mean of all")
    if by_kind := result.key_figures.link_fairness:
        kind = min(by_kind, key=lambda kind: by_kind[kind])
        meaning = f"Jain's index of the bytes of links of one kind; lowest for kind {kind}"
        yield Figure("JFI of links", f"{by_kind[kind]:.3f}", meaning)
    if result.jobs:
        fair, subject = result.fairness, "the speeds of jobs, each relative to its own alone"
    else:
        fair, subject = result.summary.rank_fairness, "the throughput of ranks, mean of the iterations"
    if fair is not None:
        yield Figure(
            f"JFI of {'jobs' if result.jobs else 'ranks'}", f"{fair:.3f}", f"Jain's index of {subject}"
        )


def _disturbances(result: RunResult) -> Iterator[Figure]:
    key_figures = result.key_figures
    if key_figures.retransmission_rate is not None:
        yield Figure("Retransmitted", f"{100 * key_figures.retransmission_rate:.3g} %", "of the packets sent")
    if key_figures.queue_p95_bytes is not None and key_figures.queue_max_bytes is not None:
        queue = f"{key_figures.queue_p95_bytes / 1e3:.3g} / {key_figures.queue_max_bytes / 1e3:.3g} kB"
        yield Figure("Queue P95 / max", queue, "the fullest queue: no more for 95 % of the time, and ever")
    if key_figures.failover_p99_s is not None:
        meaning = "from a fault until rules that answer it are in use, 99 % of the faults answered"
        yield Figure(
            "Failover P99", both_clocks(key_figures.failover_p99_s, result.fabric.rate_scale), meaning
        )
    yield Figure("Reroutes", str(len(result.reroutes)), "how often routes changed")
    if result.compared:
        wrong = f"{result.wrong} of {result.compared}"
        yield Figure("Wrong", wrong, "elements that differ from arithmetic")
