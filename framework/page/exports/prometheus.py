"""A run as Prometheus' text format: names of NVIDIA's NCCL Inspector for collectives, and railweave's own.

Source of the names and labels: NCCL, plugins/profiler/inspector/inspector_prom.cc; of the format: Prometheus,
"Text-based format", version 0.0.4.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float
from railweave.framework.model.names import element_name
from railweave.framework.page.exports.exported_run import ExportedIteration, ExportedJob, ExportedRun

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = tuple(base * 10.0**power for power in range(-4, 4) for base in (1.0, 2.5, 5.0))
"""Upper bounds of the histogram's buckets, on the run's clock: 100 us to 5,000 s."""
MOST_LINKS = 10_000
"""Of larger fabrics only elements have series: a scrape is to stay below a few megabytes."""
NCCL = {
    "all-reduce": "AllReduce",
    "all-gather": "AllGather",
    "reduce-scatter": "ReduceScatter",
    "all-to-all": "AlltoAll",
    "broadcast": "Broadcast",
    "send-recv": "Send",
}
"""NCCL's names of operations, by nccl-tests'."""
VERDICTS = ("pass", "degraded", "invalid", "none")
UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class LinkMetrics:
    """(n_links,) each, emulated: `sent_bytes` since the run began, `used`, bits sent over what the healthy
    rates allow, `queue_bytes` now, None where nothing was sampled. `scores`: of elements by name."""

    sent_bytes: Float
    used: Float
    queue_bytes: Float | None
    scores: Mapping[str, float]


class MetricLine(NamedTuple):
    """A line: what follows the metric's name, labels, value."""

    suffix: str
    labels: Mapping[str, object]
    value: float


def text_of(run: ExportedRun) -> str:
    """The metrics of a run on disk."""
    return metrics_text(run, loads_of(run))


def metrics_text(run: ExportedRun, loads: LinkMetrics | None) -> str:
    """The metrics of a run, ending in a newline."""
    return "".join([*_collectives(run), *_fabric(run.fabric, loads), *_course(run)])


def loads_of(run: ExportedRun) -> LinkMetrics | None:
    """By the result, else by the samples; None where there is neither."""
    samples, result, fabric = run.samples, run.result, run.fabric
    if samples is not None and not len(samples["t_s"]):
        samples = None
    queue = None if samples is None else samples["queue_bytes"][-1]
    if result is not None and len(result.links) == fabric.n_links:
        columns = np.array([(link.bytes, link.utilisation) for link in result.links], float)
        scores = {element.name: element.h_score for element in result.elements}
        return LinkMetrics(columns[:, 0], columns[:, 1], queue, scores)
    if samples is None or "sent_bytes" not in samples or samples["sent_bytes"].ndim < 2:
        return None
    sent = np.nansum(samples["sent_bytes"], axis=0, dtype=float)
    loads = used(fabric.scaled(run.rate_scale or 1.0), sent, float(samples["t_s"][-1]))
    return LinkMetrics(sent, loads, queue, scores_of(fabric, samples["element_score"][-1]))


def scores_of(fabric: Fabric, element_score: Float) -> dict[str, float]:
    """Of the switches that have a score, of (n_nodes,)."""
    nodes = np.unique(fabric.link_element[fabric.link_element >= 0]).tolist()
    return {element_name(fabric, node): float(element_score[node]) for node in nodes}


def used(fabric: Fabric, sent_bytes: Float, seconds: float) -> Float:
    """(n_links,): bits sent in that time over what healthy links carry; `fabric` has emulated rates."""
    rates = fabric.capacity_bps
    return 8 * sent_bytes / (rates * seconds) if seconds > 0 else np.zeros_like(sent_bytes)


# -- the format --------------------------------------------------------------------------------------------
def metric(name: str, kind: str, help_: str, values: Iterable[MetricLine]) -> str:
    """A family with its HELP and TYPE; nothing where it has no values."""
    lines = [f"{name}{value.suffix}{_labels(value.labels)} {_number(value.value)}\n" for value in values]
    if not lines:
        return ""
    text = help_.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n" + "".join(lines)


def _labels(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{escaped(str(value))}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def escaped(text: str) -> str:
    """A label's value: backslash, quote and line feed have to be escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(float(value)) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


# -- NCCL Inspector's metrics ------------------------------------------------------------------------------
def message_range(size_bytes: int) -> str:
    """`1-2MB`: Inspector's ranges, between whole multiples of a power of 1024."""
    if not size_bytes:
        return "0B"
    power = min(len(UNITS) - 1, (size_bytes.bit_length() - 1) // 10)
    low = size_bytes >> 10 * power
    return f"{low}-{low + 1}{UNITS[power]}"


def _collectives(run: ExportedRun) -> Iterator[str]:
    """As Inspector aggregates: mean of times, geometric mean of bandwidths, of all of one range of sizes."""
    series: dict[bool, list[tuple[dict[str, object], list[ExportedIteration]]]] = {False: [], True: []}
    for job in filter(lambda job: job.is_collective, run.jobs):
        by_range: dict[str, list[ExportedIteration]] = {}
        for iteration in run.iterations:
            if iteration.job == job.number and iteration.declared_us and iteration.size_bytes is not None:
                by_range.setdefault(message_range(iteration.size_bytes), []).append(iteration)
        series[job.kind == "send-recv"] += [
            (_nccl_labels(run, job, sizes), alike) for sizes, alike in by_range.items()
        ]
    for p2p, by_labels in series.items():
        which, what = ("p2p_", "point-to-point operation") if p2p else ("", "collective")
        times = "p2p_exec" if p2p else "collective_exec"
        yield metric(
            f"nccl_{which}bus_bandwidth_gbs", "gauge",
            f"Bus bandwidth of a {what} in GB/s, geometric mean; declared.",
            [MetricLine("", labels, _geometric(done)) for labels, done in by_labels if _geometric(done)],
        )  # fmt: skip
        yield metric(
            f"nccl_{times}_time_microseconds", "gauge",
            f"Time of a {what} in microseconds, mean; declared.",
            [MetricLine("", labels, math.fsum(i.declared_us or 0 for i in done) / len(done))
             for labels, done in by_labels],
        )  # fmt: skip


def _geometric(iterations: list[ExportedIteration]) -> float:
    logs = [math.log(i.busbw_gbs) for i in iterations if i.busbw_gbs]
    return math.exp(math.fsum(logs) / len(logs)) if logs else 0.0


def _nccl_labels(run: ExportedRun, job: ExportedJob, sizes: str) -> dict[str, object]:
    """`n_nodes` counts HB domains, as NVLink joins the GPUs of a node; one series stands for all GPUs."""
    labels: dict[str, object] = {
        "cluster": run.fabric.kind,
        "version": "railweave",
        "slurm_job_id": run.title,
        "node": "all",
        "gpu": "all",
        "comm_name": job.name or "job",
        "n_nodes": job.domains,
        "nranks": job.ranks,
    }
    if job.kind == "send-recv":
        return {**labels, "p2p_operation": NCCL[job.kind], "message_size": sizes}
    return {**labels, "collective": NCCL[job.kind], "message_size": sizes, "algo_proto": job.algorithm}


# -- railweave's own ---------------------------------------------------------------------------------------
def _fabric(fabric: Fabric, loads: LinkMetrics | None) -> Iterator[str]:
    if loads is None:
        return
    shown = range(fabric.n_links if fabric.n_links <= MOST_LINKS else 0)
    labels = [{"link": fabric.link_name(i), "kind": fabric.kinds[fabric.link_kind[i]]} for i in shown]
    for name, kind, values, help_ in (
        ("bytes_total", "counter", loads.sent_bytes, "Bytes that a link sent, headers counted; emulated."),
        ("queue_bytes", "gauge", loads.queue_bytes, "Bytes that wait for a link; emulated."),
        ("utilisation_ratio", "gauge", loads.used, "Bits sent over what the healthy rate allows; emulated."),
    ):
        lines = [] if values is None else zip(labels, values.tolist(), strict=False)
        yield metric(
            f"railweave_link_{name}", kind, help_, [MetricLine("", link, value) for link, value in lines]
        )
    yield metric(
        "railweave_health_score", "gauge", "Health of a switch's links, 0 (down) to 1; emulated.",
        [MetricLine("", {"element": name}, score) for name, score in loads.scores.items()],
    )  # fmt: skip


def _course(run: ExportedRun) -> Iterator[str]:
    for name, help_, count in (
        ("reroutes", "Changes of routes; emulated.", run.reroutes),
        ("faults", "Faults injected; emulated.", run.faults),
    ):
        yield metric(f"railweave_{name}_total", "counter", help_, [MetricLine("", {}, count)])
    if run.rate_scale is not None:
        scale = [MetricLine("", {}, run.rate_scale)]
        yield metric("railweave_rate_scale", "gauge", "Emulated rate over declared rate.", scale)
    yield metric(
        "railweave_iteration_seconds", "histogram", "Time of an iteration on the run's clock; emulated.",
        [value for job in run.jobs for value in _histogram(run, job)],
    )  # fmt: skip
    yield metric(
        "railweave_fidelity", "gauge", "1 for the verdict on the figures; none: the run has no result.",
        [MetricLine("", {"verdict": verdict}, float(verdict == run.verdict)) for verdict in VERDICTS],
    )  # fmt: skip


def _histogram(run: ExportedRun, job: ExportedJob) -> Iterator[MetricLine]:
    seconds = [iteration.seconds for iteration in run.iterations if iteration.job == job.number]
    labels = {"job": job.name or "0"}
    for most in (*SECONDS, math.inf):
        bound = "+Inf" if most == math.inf else f"{most:g}"
        yield MetricLine("_bucket", {**labels, "le": bound}, sum(s <= most for s in seconds))
    yield MetricLine("_sum", labels, math.fsum(seconds))
    yield MetricLine("_count", labels, len(seconds))
