"""`railweave model iteration` and `railweave model traffic`: how long training a language model takes, what
it sends."""

from dataclasses import asdict
from pathlib import Path

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table
from railweave.framework.cli.model._options import SIZE, bundled, gpu_options, refuse_others, value_option
from railweave.framework.cli.model._strategy_report import StrategyReport, gpu_of
from railweave.framework.cli.model._traffic_report import TrafficFiles, TrafficReport
from railweave.framework.papers.training.clusters import Cluster, GpuKind
from railweave.framework.papers.training.iteration import TABLE_4, Calibration
from railweave.framework.papers.training.model_files import chosen_model
from railweave.framework.papers.training.models import MODELS, hardware_utilisation
from railweave.framework.papers.training.placement import place, scaled_degrees
from railweave.framework.papers.training.strategies import FixedDegrees
from railweave.framework.papers.training.strategy_search import search
from railweave.framework.papers.training.traffic_matrix import job_of_batch
from railweave.framework.papers.training.traffic_matrix import traffic as traffic_of

model_option = value_option(
    "--model name",
    "gpt-1t",
    str,
    "gpt-22b, gpt-175b, gpt-530b, gpt-1t, megatron-18.4b to megatron-1008b, or file:PATH with a model.",
)
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "iteration",
    short_help="Find the fastest strategies to train a model.",
    epilog=example(
        "railweave model iteration --model gpt-1t --gpus 512 --domain 8 --batch 512 --gpu a100",
        "railweave model iteration --published --gemm-factor 1.5 --attention 16 --domain-rate 600GB/s",
    ),
)
@model_option
@value_option("--gpus", 512, int, "N, GPUs in the cluster.")
@value_option("--domain", 8, int, "K, GPUs in an HB domain.")
@value_option("--batch", 512, int, "B, samples in an iteration.")
@gpu_options("a100")
@click.option("--tflops", type=float, help="Peak of a GPU in 10^12 operations a second. [that of --gpu]")
@click.option("--memory", type=SIZE, help="Memory of a GPU; 0 is no limit. [that of --gpu]")
@value_option("--state-bytes", 18.0, float, "Bytes of weights and optimiser state per parameter.")
@click.option("--tp", type=int, help="Fix the degree of tensor parallelism.")
@click.option("--pp", type=int, help="Fix the degree of pipeline parallelism.")
@click.option("--dp", type=int, help="Fix the degree of data parallelism.")
@click.option("--microbatch", type=int, help="Fix the number of samples in a microbatch.")
@click.option("--interleave", type=int, help="Fix the number of model chunks per stage.")
@value_option("--gemm-factor", 1.0, float, "Time of matrix products over their time at peak.")
@value_option("--attention", 24.0, float, "Operations of attention over B l s^2 h; 16 without recomputation.")
@value_option("--top", 5, click.IntRange(1), "How many strategies to show.")
@click.option(
    "--published",
    is_flag=True,
    help="Table 4 of the paper instead of a search; with --gemm-factor, --attention and --domain-rate.",
)
@bundled("gpu", gpu_of, "gpu", "tflops", "domain_rate", "rail_rate", "memory")
@bundled("fixed", FixedDegrees, "tp", "pp", "dp", "microbatch", "interleave")
@bundled("calibration", Calibration, "gemm_factor", "attention")
@json_command
def iteration(
    ctx: click.Context,
    name: str,
    gpus: int,
    domain: int,
    batch: int,
    gpu: GpuKind,
    state_bytes: float,
    fixed: FixedDegrees,
    calibration: Calibration,
    top: int,
    published: bool,
    as_json: bool,
) -> None:
    """Find the fastest strategies to train a model on a cluster (equations 2 to 7 and 10).

    Tries all degrees of tensor (t), pipeline (p) and data (d) parallelism, microbatches (b), chunks (v) and
    shares of each degree inside the HB domain (th, ph, dh) that constraints 11 to 19 allow. Equal times:
    smallest t, p, b.
    """
    if published:
        used = ("published", "gemm_factor", "attention", "domain_rate", "as_json", "verbose")
        refuse_others(ctx, "--published", used)
        _published(calibration, gpu, as_json)
        return
    language_model, cluster = chosen_model(name), Cluster(gpus, domain, gpu)
    ranking = search(
        language_model,
        cluster,
        batch,
        fixed=fixed,
        calibration=calibration,
        state_bytes=state_bytes,
        most=top,
    )
    strategies = StrategyReport(language_model, cluster, batch, calibration, ranking)
    if as_json:
        print_json("model.iteration", **strategies.document())
    else:
        print_text(strategies.text())


def _published(calibration: Calibration, gpu: GpuKind, as_json: bool) -> None:
    """Table 4: measured elsewhere, computed in the paper, and computed here."""
    rows = [
        {
            **asdict(case),
            "here_s": case.time(calibration, gpu).total_s,
            "measured_hfu": hardware_utilisation(
                MODELS[case.model], case.batch, case.gpus, gpu.flops_per_s, case.measured_s
            ),
        }
        for case in TABLE_4
    ]
    if as_json:
        print_json("model.iteration.published", calibration=asdict(calibration), cases=rows)
        return
    columns = ("model", "gpus", "batch", "t", "p", "b", "v")
    cells = [
        (
            *(row[column] for column in columns),
            f"{row['measured_s']:.2f}",
            f"{100 * row['measured_hfu']:.2f} %",
            f"{row['computed_s']:.2f}",
            f"{row['here_s']:.3f}",
        )
        for row in rows
    ]
    print_text(table((*columns, "measured s", "HFU", "paper's s", "here s"), cells))


@click.command(
    "traffic",
    short_help="Compute which GPU sends how much to which.",
    epilog=example(
        "railweave model traffic --model gpt-1t --tp 8 --pp 8 --dp 4 --domains 32 --svg traffic.svg"
    ),
)
@model_option
@value_option("--tp", 8, int, "Degree of tensor parallelism.")
@value_option("--pp", 8, int, "Degree of pipeline parallelism.")
@value_option("--dp", 4, int, "Degree of data parallelism.")
@value_option("--microbatch", 1, int, "Samples in a microbatch.")
@value_option("--interleave", 1, int, "Model chunks per pipeline stage.")
@value_option("--batch", 512, int, "Samples in an iteration.")
@value_option("--domains", 32, int, "HB domains of the fabric.")
@value_option("--rails", 8, int, "Rails of the fabric, and GPUs in a domain.")
@click.option("--svg", type=FILE, help="Write the heatmap to this file.")
@click.option("--png", type=FILE, help="Write the heatmap to this file, without text.")
@click.option("--matrix", type=FILE, help="Write the matrix of bytes to this file, as CSV.")
@bundled("files", TrafficFiles, "svg", "png", "matrix")
@json_command
def traffic(
    ctx: click.Context,
    name: str,
    tp: int,
    pp: int,
    dp: int,
    microbatch: int,
    interleave: int,
    batch: int,
    domains: int,
    rails: int,
    files: TrafficFiles,
    as_json: bool,
) -> None:
    """Compute which GPU sends how much to which in one iteration of PTD-P training on a rail fabric.

    Tensor parallelism stays inside an HB domain, pipeline and data parallelism join GPUs of equal rank. On a
    fabric with fewer GPUs than the job has ranks, groups are smaller and each GPU still sends what it sends
    in the whole job.
    """
    from railweave.framework.experiment.plan import build_fabric

    job = job_of_batch(chosen_model(name), tp, pp, dp, microbatch, interleave, batch)
    fabric = build_fabric("rail-only", {"domains": domains, "rails": rails}, {}, registers(ctx))
    placed = place(fabric, *scaled_degrees(fabric, tp, pp, dp), interleave)
    report = TrafficReport(job, placed, traffic_of(job, placed), domains, rails)
    files.write(report)
    if as_json:
        print_json("model.traffic", **report.document())
    else:
        print_text(report.text())
