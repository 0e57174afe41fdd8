"""Items about training: traffic, the time of an iteration, utilisation, strategies."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.drawing.plots import Axis, Curve, curves
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.pictures import pipeline
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.papers.training.all_gather import Grid, ag_time_s
from railweave.framework.papers.training.clusters import GPUS, Cluster, gpu_named
from railweave.framework.papers.training.heatmap import heatmap_svg
from railweave.framework.papers.training.iteration import (
    TABLE_4,
    Calibration,
    Case,
    IterationTime,
    iteration_time,
)
from railweave.framework.papers.training.models import (
    MODELS,
    LanguageModel,
    hardware_utilisation,
    model_named,
)
from railweave.framework.papers.training.pipeline import critical_path, timed_passes
from railweave.framework.papers.training.placement import place
from railweave.framework.papers.training.strategies import FixedDegrees, candidates
from railweave.framework.papers.training.strategy_search import memory_bytes, search
from railweave.framework.papers.training.traffic_matrix import KINDS, Demands, job_of_batch
from railweave.framework.papers.training.traffic_matrix import traffic as traffic_of

BOTH_DIRECTIONS_BPS = 8 * 600e9
"""NVLink of an A100 as vendors quote it, both directions together: one of the fitted values of table 4."""


FITTED = (1.5, 16.0)
"""GEMM factor and operations of attention with which table 4 comes out; found by fitting."""


HFU_1T = 0.15
"""Points of HFU between computed and measured that the source claims."""


def fitted(gemm_factor: float, attention: float) -> tuple[Calibration, Calibration]:
    """The calibration with these values, and the equations read literally."""
    return Calibration(gemm_factor=gemm_factor, attention=attention), Calibration()


def r02(
    workbench: Workbench,
    *,
    stages: int = 4,
    microbatches: int = 8,
    forward_s: float = 1.0,
    backward_s: float = 2.0,
) -> Claims:
    """The 1F1B schedule pass by pass: its length, its bubble and its critical path."""
    passes = timed_passes(stages, microbatches, forward_s, backward_s)
    chain = critical_path(passes)
    length_s = max(timed.end_s for timed in passes)
    busy_s = sum(timed.end_s - timed.start_s for timed in passes if timed.stage == 0)
    both_s = forward_s + backward_s
    title = f"1F1B, {stages} stages, {microbatches} microbatches"
    return Claims(
        (
            Claim("length, (m + p - 1) t(b)", (microbatches + stages - 1) * both_s, length_s, "s"),
            Claim("bubble of a stage, (p - 1) t(b)", (stages - 1) * both_s, length_s - busy_s, "s"),
            Claim("critical path", length_s, sum(timed.end_s - timed.start_s for timed in chain), "s"),
        ),
        pipeline(passes, chain, title),
    )


def r03(
    workbench: Workbench,
    *,
    size: float = 1e9,
    rails: int = 8,
    domains: int = 4,
    gemm_factor: float = FITTED[0],
    attention: float = FITTED[1],
) -> Claims:
    """Equation 1, equation 2 as the sum of its terms, and equation 7 alone."""
    gpu = GPUS["a100"]
    fast, slow = gpu.domain_bytes_per_s, gpu.rail_bytes_per_s
    printed = (domains - 1) * size / (rails * domains * slow) + (rails - 1) * size / (rails * fast)
    calibration, _ = fitted(gemm_factor, attention)
    few, many = (case.time(calibration) for case in TABLE_4[2:4])
    parts = many.bubble_compute_s + many.bubble_network_s + many.steady_compute_s + many.steady_network_s
    growth = TABLE_4[3].computed_s - TABLE_4[2].computed_s
    return Claims(
        (
            Claim("equation 1", printed, ag_time_s(size, Grid(rails, domains, fast, slow)), "s"),
            Claim("equation 2, GPT-530B on 2,240 GPUs", parts + many.sync_s, many.total_s, "s"),
            Claim("equation 7, GPT-530B on 2,240 GPUs over 280", growth, many.sync_s - few.sync_s, "s"),
            Claim("equation 10, t(b) of GPT-1T", None, microbatch_s(TABLE_4[-1], calibration), "s"),
        )
    )


def microbatch_s(case: Case, calibration: Calibration) -> float:
    """t(b) of a row of table 4: the computation of all microbatches over their number."""
    count = case.batch // (case.strategy.d * case.b)
    return case.time(calibration).steady_compute_s / count


def traffic(workbench: Workbench, model: str, tp: int, pp: int, dp: int, rails: int, batch: int) -> Demands:
    """What the GPUs of a job send that fills a rail-only fabric of domains of `rails` GPUs."""
    job = job_of_batch(model_named(model), tp, pp, dp, 1, 1, batch)
    fabric = workbench.fabric("rail-only", domains=tp * pp * dp // rails, rails=rails)
    return traffic_of(job, place(fabric, tp, pp, dp))


def pair_share(demands: Demands, kind: str) -> float:
    """The share of ordered pairs of GPUs that exchange bytes of this kind."""
    chosen = (demands.kind == KINDS.index(kind)) & (demands.bytes > 0)
    pairs = np.unique(demands.src[chosen] * demands.n_gpus + demands.dst[chosen]).size
    return pairs / (demands.n_gpus * (demands.n_gpus - 1))


def r04(
    workbench: Workbench,
    *,
    model: str = "gpt-1t",
    tp: int = 8,
    pp: int = 64,
    dp: int = 6,
    rails: int = 8,
    batch: int = 3072,
) -> Claims:
    """Bytes by kind of parallelism, and the share of pairs of GPUs that exchange them."""
    demands = traffic(workbench, model, tp, pp, dp, rails, batch)
    shares = {kind: pair_share(demands, kind) for kind in KINDS}
    drawn = [Curve("share of bytes", [0.0, 1.0, 2.0], [demands.shares[kind] for kind in KINDS]),
             Curve("share of pairs", [0.0, 1.0, 2.0], [shares[kind] for kind in KINDS])]  # fmt: skip
    return Claims(
        (
            Claim("pairs that exchange nothing", 99.0, 100 * demands.silent_pairs, "%", bound=">"),
            Claim("pairs of tensor parallelism", 0.04, 100 * shares["tp"], "%", bound="<"),
            *(Claim(f"bytes of {kind}", None, 100 * demands.shares[kind], "%") for kind in KINDS),
        ),
        curves(f"traffic of {model}", Axis("parallelism", KINDS), Axis("share"), drawn),
    )


def r05(
    workbench: Workbench,
    *,
    model: str = "gpt-1t",
    tp: int = 8,
    pp: int = 8,
    dp: int = 4,
    rails: int = 8,
    batch: int = 512,
) -> Claims:
    """The matrix of bytes as a heatmap, and the share that stays in HB domains."""
    demands = traffic(workbench, model, tp, pp, dp, rails, batch)
    matrix = demands.matrix()
    inside = (demands.src // rails == demands.dst // rails) * demands.bytes
    across = (demands.src // rails != demands.dst // rails) & (demands.src % rails != demands.dst % rails)
    share = float(inside.sum()) / demands.total_bytes
    return Claims(
        (
            Claim("bytes that stay in a domain", 98.0, 100 * share, "%"),
            Claim("bytes between rails and domains", 0, float(demands.bytes[across].sum()), "bytes"),
        ),
        heatmap_svg(matrix, rails, f"traffic of {model}", f"tensor {tp}, pipeline {pp}, data {dp}"),
    )


def r10(
    workbench: Workbench,
    *,
    model: str = "gpt-22b",
    gpus: int = 64,
    domain: int = 8,
    batch: int = 64,
    gpu: str = "a100",
) -> Claims:
    """The exhaustive search against every candidate evaluated by itself, and its constraints."""
    language_model, cluster = model_named(model), Cluster(gpus, domain, gpu_named(gpu))
    calibration = Calibration()
    ranking = search(language_model, cluster, batch, calibration=calibration)
    best = ranking.best[0]
    chosen = candidates(language_model, cluster, batch, FixedDegrees())
    fits = memory_bytes(language_model, chosen) <= cluster.gpu.memory_bytes
    singly = [
        iteration_time(language_model, cluster, batch, chosen.at(i), calibration).total_s
        for i in np.flatnonzero(fits).tolist()
    ]
    s = best.strategy
    kept = (
        s.t * s.p * s.d == gpus, s.th * s.ph * s.dh == domain, s.t % s.th == s.p % s.ph == s.d % s.dh == 0,
        language_model.layers % (s.p * s.v) == 0, language_model.hidden % s.t == 0,
        language_model.sequence % s.t == 0, batch % (s.d * s.b) == 0,
        best.memory_bytes <= cluster.gpu.memory_bytes,
    )  # fmt: skip
    return Claims(
        (
            Claim("least T_iter of all that fit", min(singly), best.time.total_s, "s"),
            Claim("constraints 11 to 19 that the best breaks", 0, sum(not ok for ok in kept)),
            Claim("strategies that divide the job", None, ranking.tried),
            Claim("strategies that fit into memory", len(singly), ranking.fitting),
        )
    )


def r11(
    workbench: Workbench,
    *,
    gemm_factor: float = FITTED[0],
    attention: float = FITTED[1],
    domain_bps: float = BOTH_DIRECTIONS_BPS,
) -> Claims:
    """Table 4 fitted and read literally, and hardware utilisation from computed and measured times."""
    gpu = gpu_named("a100", domain_bps=domain_bps)
    calibration, literal = fitted(gemm_factor, attention)
    figures, measured, computed = [], [], []
    names = [f"{case.model}, {case.gpus} GPUs" for case in TABLE_4]
    for name, case in zip(names, TABLE_4, strict=True):
        seconds = case.time(calibration, gpu).total_s
        figures += [
            Claim(f"{name}: T_iter, fitted", case.computed_s, seconds, "s"),
            Claim(f"{name}: T_iter, as printed", case.computed_s, case.time(literal).total_s, "s"),
        ]
        measured.append(100 * utilisation(case, case.measured_s))
        computed.append(100 * utilisation(case, seconds))
    figures += [
        Claim("GPT-1T: HFU computed less measured", HFU_1T, computed[-1] - measured[-1], "points"),
        *(Claim(f"{name}: HFU from the computed time", None, hfu, "%")
          for name, hfu in zip(names, computed, strict=True)),
    ]  # fmt: skip
    places = [*map(float, range(len(names)))]
    drawn = [Curve("computed here", places, computed), Curve("from measured times", places, measured)]
    return Claims(tuple(figures), curves("utilisation", Axis("model", names), Axis("HFU, %"), drawn))


def utilisation(case: Case, seconds: float) -> float:
    """HFU of a row of table 4, a share."""
    return hardware_utilisation(MODELS[case.model], case.batch, case.gpus, GPUS["a100"].flops_per_s, seconds)


def best_s(
    model: str,
    gpus: int,
    domain: int,
    batch: int,
    gpu: str,
    domain_scale: float = 1.0,
    rail_scale: float = 1.0,
) -> float:
    """T_iter of the fastest strategy on GPUs whose rates are scaled."""
    preset = gpu_named(gpu)
    scaled = gpu_named(
        gpu,
        domain_bps=8 * preset.domain_bytes_per_s * domain_scale,
        rail_bps=8 * preset.rail_bytes_per_s * rail_scale,
    )
    return search(model_named(model), Cluster(gpus, domain, scaled), batch).best[0].time.total_s


def r12(
    workbench: Workbench,
    *,
    models: Sequence[str] = ("megatron-145.6b", "gpt-1t"),
    gpus: int = 32768,
    batch: int = 4096,
    gpu: str = "h100",
    domains: Sequence[int] = (8, 16, 32, 64, 128, 256),
    scales: Sequence[float] = (0.5, 1.0, 2.0),
    batches: Sequence[int] = (1024, 2048, 4096),
) -> Claims:
    """The fastest iteration over the size of the HB domain, over both rates, and over the batch."""
    figures, drawn = [], []
    for model in models:
        seconds = [best_s(model, gpus, domain, batch, gpu) for domain in domains]
        drawn.append(Curve(model, [*map(float, domains)], seconds))
        first, last = domains[0], domains[-1]
        figures.append(Claim(f"{model}: saved from K = {first} to {last}", None,
                              100 * (1 - seconds[-1] / seconds[0]), "%"))  # fmt: skip
        base = seconds[-1]
        ideal = best_s(model, gpus, gpus, batch, gpu)
        name = f"{model}: T_iter at K = {last} over one domain of all"
        figures.append(Claim(name, None, base / ideal))
        for scale in scales:
            by_domain = best_s(model, gpus, last, batch, gpu, domain_scale=scale) / base
            by_rail = best_s(model, gpus, last, batch, gpu, rail_scale=scale) / base
            figures += [
                Claim(f"{model}: T_iter at C_F x {scale:g}, K = {last}", None, by_domain),
                Claim(f"{model}: T_iter at C_S x {scale:g}, K = {last}", None, by_rail),
            ]
        for samples in batches:
            per_sample = best_s(model, gpus, last, samples, gpu) / samples * batch / base
            figures.append(Claim(f"{model}: time of a sample at batch {samples}", None, per_sample))
    title = f"fastest iteration of {gpus} {gpu}, batch {batch}"
    return Claims(tuple(figures), curves(title, Axis("GPUs in an HB domain"), Axis("s"), drawn))


def r16(
    workbench: Workbench,
    *,
    model: LanguageModel = MODELS["megatron-39.1b"],
    gpus: int = 64,
    domain: int = 8,
    batch: int = 64,
    gpu: str = "a100",
    rails: int = 8,
) -> Claims:
    """A model of the user's, two jobs in rectangles of a fabric, and the bytes of experts between rails."""
    time = fastest(model, gpus, domain, batch, gpu)
    halves = [f"rail:0-{rails // 2 - 1}", f"rail:{rails // 2}-{rails - 1}"]
    fabric = {"name": "rail-only", "domains": 4, "rails": rails}
    keys = {"topology": fabric, "router": "hscore", "iterations": 2, "size": "1M"}
    result = workbench.run(jobs=[{"collective": "all-reduce", "ranks": half} for half in halves], **keys)
    experts = workbench.run(collective="moe-all-to-all", **keys)
    slowed = max(job.interference or 1.0 for job in result.jobs)
    assert experts.summary is not None
    return Claims(
        (
            Claim(f"{model.name}: parameters", None, model.parameters),
            Claim(f"{model.name}: T_iter on {gpus} GPUs", None, time.total_s, "s"),
            Claim("two jobs on rails of their own: time over time alone", 1.0, slowed),
            Claim("all-to-all of experts", None, experts.summary.declared_time_us, "us"),
        )
    )


def fastest(model: LanguageModel, gpus: int, domain: int, batch: int, gpu: str) -> IterationTime:
    """The terms of the fastest strategy of this model."""
    return search(model, Cluster(gpus, domain, gpu_named(gpu)), batch).best[0].time
