"""`railweave model iteration` and `railweave model traffic`: what training a language model takes and sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from railweave.framework.cli.context import (
    example,
    json_option,
    print_json,
    registers,
    table,
    verbose_option,
)

if TYPE_CHECKING:
    from railweave.framework.llm.clusters import Cluster, Gpu
    from railweave.framework.llm.iteration import Calibration
    from railweave.framework.llm.models import LanguageModel
    from railweave.framework.llm.search import Search

MODEL_HELP = "The model: gpt-22b, gpt-175b, gpt-530b, gpt-1t, megatron-18.4b and so on to megatron-1008b."


@click.command(
    "iteration",
    epilog=example(
        "railweave model iteration --model gpt-1t --gpus 512 --domain 8 --batch 512 --gpu a100",
        "railweave model iteration --published --gemm-factor 1.5 --attention 16 --domain-rate 600GB/s",
    ),
)
@click.option("--model", "name", metavar="NAME", default="gpt-1t", show_default=True, help=MODEL_HELP)
@click.option("--gpus", type=int, default=512, show_default=True, help="N, all GPUs.")
@click.option("--domain", type=int, default=8, show_default=True, help="K, GPUs in an HB domain.")
@click.option("--batch", type=int, default=512, show_default=True, help="B, samples in an iteration.")
@click.option("--gpu", metavar="NAME", default="a100", show_default=True, help="Preset: a100 or h100.")
@click.option(
    "--tflops", type=float, help="Peak of a GPU, 10^12 operations a second, instead of the preset's."
)
@click.option("--domain-rate", metavar="RATE", help="A GPU's rate into its HB domain, per direction.")
@click.option("--rail-rate", metavar="RATE", help="A GPU's rate onto its rail, per direction.")
@click.option("--memory", metavar="BYTES", help="Memory of a GPU; 0 is no limit.")
@click.option(
    "--state-bytes", type=float, default=18.0, show_default=True, help="Weights and optimiser, per parameter."
)
@click.option("--tp", type=int, help="Only with this tensor parallelism.")
@click.option("--pp", type=int, help="Only with this pipeline parallelism.")
@click.option("--dp", type=int, help="Only with this data parallelism.")
@click.option("--microbatch", type=int, help="Only with so many samples in a microbatch.")
@click.option("--interleave", type=int, help="Only with so many model chunks per stage.")
@click.option(
    "--gemm-factor",
    type=float,
    default=1.0,
    show_default=True,
    help="Matrix products take so many times what they take at peak.",
)
@click.option(
    "--attention",
    type=float,
    default=24.0,
    show_default=True,
    help="Operations of attention over B l s^2 h; 16 without the second recomputation.",
)
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="How many strategies to show."
)
@click.option("--published", is_flag=True, help="The paper's table 4 instead of a search.")
@json_option
@verbose_option
def iteration(
    name: str, gpus: int, domain: int, batch: int, gpu: str, tflops: float | None, domain_rate: str | None,
    rail_rate: str | None, memory: str | None, state_bytes: float, tp: int | None, pp: int | None,
    dp: int | None, microbatch: int | None, interleave: int | None, gemm_factor: float, attention: float, top: int,
    published: bool, as_json: bool, verbose: bool,
) -> None:  # fmt: skip
    """Find the fastest ways to split a training job: iteration time by equations 2 to 7 and 10.

    Tries all degrees of tensor (t), pipeline (p) and data (d) parallelism, microbatches (b), chunks (v) and shares of
    each degree inside the HB domain (th, ph, dh) that constraints 11 to 19 allow. Equal times: smallest t, p, b.
    """
    from railweave.framework.llm.clusters import Cluster, gpu_named
    from railweave.framework.llm.iteration import Calibration
    from railweave.framework.llm.models import model_named
    from railweave.framework.llm.search import search
    from railweave.framework.llm.strategies import Given

    calibration = Calibration(gemm_factor, attention)
    if published:
        _published(calibration, domain_rate, as_json)
        return
    preset = _tuned(gpu_named(gpu), tflops, domain_rate, rail_rate, memory)
    model, cluster = model_named(name), Cluster(gpus, domain, preset)
    found = search(
        model, cluster, batch, given=Given(tp, pp, dp, microbatch, interleave), calibration=calibration,
        state_bytes=state_bytes, most=top,
    )  # fmt: skip
    if as_json:
        print_json(
            "model.iteration",
            {
                "model": asdict(model) | {"parameters": model.parameters}, "cluster": asdict(cluster), "batch": batch,
                "calibration": asdict(calibration), "tried": found.tried, "fitting": found.fitting,
                "strategies": [
                    {
                        **asdict(one.strategy), "microbatches": batch // (one.strategy.d * one.strategy.b),
                        **asdict(one.time), "total_s": one.time.total_s, "memory_bytes": one.memory_bytes,
                        "hardware_utilisation": share,
                    }
                    for one, share in zip(found.best, _utilisations(found, model, batch, cluster), strict=True)
                ],
            },
        )  # fmt: skip
        return
    click.echo(
        f"{name}: {model.parameters / 1e9:.4g} billion parameters on {gpus} {gpu} in HB domains of {domain}, batch "
        f"{batch}\n{found.tried} strategies, {found.fitting} fit into memory; the fastest:\n"
    )
    click.echo(_strategies(found, _utilisations(found, model, batch, cluster)))


def _tuned(
    gpu: Gpu, tflops: float | None, domain_rate: str | None, rail_rate: str | None, memory: str | None
) -> Gpu:
    """The preset with what the options say instead."""
    from railweave.framework.parameters import Parameter

    changed: dict[str, float] = {}
    if tflops is not None:
        changed["flops_per_s"] = tflops * 1e12
    if memory is not None:
        changed["memory_bytes"] = float(Parameter("--memory", 0, "bytes", "", minimum=0).parse(memory))
    for field, option, text in (
        ("domain_bytes_per_s", "--domain-rate", domain_rate),
        ("rail_bytes_per_s", "--rail-rate", rail_rate),
    ):
        if text is not None:
            changed[field] = float(Parameter(option, 0.0, "rate", "", minimum=1).parse(text)) / 8
    return replace(gpu, **changed)  # type: ignore[arg-type]


def _utilisations(found: Search, model: LanguageModel, batch: int, cluster: Cluster) -> list[float]:
    from railweave.framework.llm.models import hardware_utilisation

    return [
        hardware_utilisation(model, batch, cluster.gpus, cluster.gpu.flops_per_s, one.time.total_s)
        for one in found.best
    ]


def _strategies(found: Search, shares: Sequence[float]) -> str:
    from railweave.framework.quantities import time

    head = (
        "t", "p", "d", "b", "v", "th", "ph", "dh", "time", "bubble", "compute", "network", "sync", "memory", "HFU",
    )  # fmt: skip
    rows = [
        (
            s.t, s.p, s.d, s.b, s.v, s.th, s.ph, s.dh, time(t.total_s), time(t.bubble_compute_s + t.bubble_network_s),
            time(t.steady_compute_s), time(t.steady_network_s), time(t.sync_s), f"{one.memory_bytes / 1e9:.1f} GB",
            f"{100 * share:.1f} %",
        )
        for one, share in zip(found.best, shares, strict=True)
        for s, t in ((one.strategy, one.time),)
    ]  # fmt: skip
    return table(head, rows)


def _published(calibration: Calibration, domain_rate: str | None, as_json: bool) -> None:
    """Table 4: measured elsewhere, computed in the paper, and computed here."""
    from railweave.framework.llm.models import MODELS, hardware_utilisation
    from railweave.framework.llm.published import TABLE_4
    from railweave.framework.parameters import Parameter

    rate = None
    if domain_rate is not None:
        rate = float(Parameter("--domain-rate", 0.0, "rate", "", minimum=1).parse(domain_rate)) / 8
    rows = [
        (
            case,
            case.time(calibration, rate).total_s,
            hardware_utilisation(MODELS[case.model], case.batch, case.gpus, 312e12, case.measured_s),
        )
        for case in TABLE_4
    ]
    if as_json:
        cases = [{**asdict(case), "here_s": here, "measured_hfu": share} for case, here, share in rows]
        print_json("model.iteration.published", {"calibration": asdict(calibration), "cases": cases})
        return
    head = ("model", "GPUs", "batch", "t", "p", "b", "v", "measured s", "HFU", "paper's s", "here s")
    click.echo(
        table(
            head,
            [
                (
                    c.model, c.gpus, c.batch, c.t, c.p, c.b, c.v, f"{c.measured_s:.2f}", f"{100 * share:.2f} %",
                    f"{c.computed_s:.2f}", f"{here:.3f}",
                )
                for c, here, share in rows
            ],
        )
    )  # fmt: skip


@click.command(
    "traffic",
    epilog=example(
        "railweave model traffic --model gpt-1t --tp 8 --pp 8 --dp 4 --domains 32 --svg traffic.svg"
    ),
)
@click.option("--model", "name", metavar="NAME", default="gpt-1t", show_default=True, help=MODEL_HELP)
@click.option("--tp", type=int, default=8, show_default=True, help="Tensor parallelism.")
@click.option("--pp", type=int, default=8, show_default=True, help="Pipeline parallelism.")
@click.option("--dp", type=int, default=4, show_default=True, help="Data parallelism.")
@click.option("--microbatch", type=int, default=1, show_default=True, help="Samples in a microbatch.")
@click.option("--interleave", type=int, default=1, show_default=True, help="Model chunks per pipeline stage.")
@click.option("--batch", type=int, default=512, show_default=True, help="Samples in an iteration.")
@click.option("--domains", type=int, default=32, show_default=True, help="HB domains of the fabric.")
@click.option(
    "--rails", type=int, default=8, show_default=True, help="Rails, which is the GPUs of one domain."
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the heatmap here.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Write it here, without words.")
@click.option(
    "--matrix", type=click.Path(dir_okay=False, path_type=Path), help="Write the bytes here, as CSV."
)
@json_option
@verbose_option
@click.pass_context
def traffic(
    ctx: click.Context, name: str, tp: int, pp: int, dp: int, microbatch: int, interleave: int, batch: int,
    domains: int, rails: int, svg: Path | None, png: Path | None, matrix: Path | None, as_json: bool, verbose: bool,
) -> None:  # fmt: skip
    """Who sends how much to whom in one iteration of PTD-P training on a rail fabric.

    Tensor parallelism stays inside an HB domain, pipeline and data parallelism join GPUs of equal rank. On a fabric
    of fewer GPUs than the job has, groups are smaller and each GPU still sends what it sends in the whole job.
    """
    import numpy as np

    from railweave.framework.errors import ExperimentError
    from railweave.framework.experiment import build_fabric
    from railweave.framework.llm.heatmap import heatmap_png, heatmap_svg
    from railweave.framework.llm.models import model_named
    from railweave.framework.llm.placement import place, scaled_degrees
    from railweave.framework.llm.traffic_matrix import traffic as traffic_of
    from railweave.framework.llm.volumes import job_of_batch

    job = job_of_batch(model_named(name), tp, pp, dp, microbatch, interleave, batch)
    fabric = build_fabric("rail-only", {"domains": domains, "rails": rails}, {}, registers(ctx))
    placed = place(fabric, *scaled_degrees(fabric, tp, pp, dp), interleave)
    found = traffic_of(job, placed)
    bytes_ = found.matrix() if svg or png or matrix else np.zeros((1, 1))
    caption = f"tensor {placed.t}, pipeline {placed.p}, data {placed.d}, {job.m} microbatches: " + ", ".join(
        f"{kind} {100 * share:.3g} %" for kind, share in found.shares.items()
    )
    try:
        if svg:
            svg.write_text(heatmap_svg(bytes_, rails, f"PTD-P traffic of {name}", caption))
        if png:
            png.write_bytes(heatmap_png(bytes_, rails))
        if matrix:
            np.savetxt(matrix, bytes_, "%.0f", ",")
    except OSError as error:
        raise ExperimentError(f"{error.filename} cannot be written: {error.strerror}.") from error
    figures = {
        "total_bytes": found.total_bytes, "busiest_gpu_bytes": float(found.sent.max()),
        "silent_pairs": found.silent_pairs,
    }  # fmt: skip
    if as_json:
        degrees = {"tp": placed.t, "pp": placed.p, "dp": placed.d}
        print_json(
            "model.traffic",
            {"model": name, "asked": {"tp": tp, "pp": pp, "dp": dp}, "placed": degrees, "microbatches": job.m,
             "domains": domains, "rails": rails, "shares": dict(found.shares), **figures},
        )  # fmt: skip
        return
    if (placed.t, placed.p, placed.d) != (tp, pp, dp):
        click.echo(f"{tp * pp * dp} ranks on {fabric.n_gpus} GPUs: groups are made smaller")
    click.echo(f"{name} on {domains} HB domains of {rails}: {caption}\n")
    words = {"tp": "in a domain", "pp": "on a rail, or in a domain", "dp": "on a rail, or in a domain"}
    rows = [
        (kind, f"{share * found.total_bytes:.4g}", f"{100 * share:.3f} %", words[kind])
        for kind, share in found.shares.items()
    ]
    click.echo(table(("kind", "bytes", "share", "between GPUs"), rows))
    click.echo(
        f"\nbusiest GPU sends {figures['busiest_gpu_bytes']:.4g} bytes; {100 * found.silent_pairs:.2f} % of all pairs "
        "exchange nothing"
    )
