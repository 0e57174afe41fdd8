"""`railweave compare --engines`: one experiment, or many, on two engines or more."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from railweave.framework.api.labs import compare_cases
from railweave.framework.api.studies import (
    Agreement,
    CongestionFigures,
    Point,
    engines_of,
    keys_by_engine,
    run_on_all,
)
from railweave.framework.cli import VERBOSE
from railweave.framework.cli._context import print_json, print_text, registers, table
from railweave.framework.cli._live import Live
from railweave.framework.cli._options import overrides_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.cli._study import study_directory
from railweave.framework.cli._summary import declared_time
from railweave.framework.experiment.plan import load_plan

MEANINGLESS = ("modes", "two_jobs", "engine")
"""Options that say what `--engines` says, or nothing next to it."""

OF_CASES = ("topology", "router", "faults", "jobs", "ranks")
"""Keys that every case of `--all` and `--quick` brings, and is named by."""


def compare_engines(
    ctx: click.Context, engines: str, many: str | None, resume: Path | None, *, as_json: bool
) -> None:
    """Run the experiment of the command, or `many` (all, quick), on all engines, and print how far apart they
    are."""
    names = engines_of([word.strip() for word in engines.split(",") if word.strip()], registers(ctx), None)
    values, labels = overrides_of(ctx)
    for name in MEANINGLESS:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = "--jobs" if name == "two_jobs" else f"--{name}"
            raise click.BadParameter("means nothing with --engines.", ctx=ctx, param_hint=flag)
    repeated = ctx.get_parameter_source("repeat") is not ParameterSource.DEFAULT
    repeat = ctx.params["repeat"] if repeated else 1
    if many is not None:
        for key, label in labels.items():
            if key.partition(".")[0] in OF_CASES:
                text = f"--{many} brings its own. Leave one of them out."
                raise click.BadParameter(text, ctx=ctx, param_hint=label)
        if ctx.params["experiment"] is not None:
            raise click.BadParameter("brings its own experiments.", ctx=ctx, param_hint=f"--{many}")
        with raised_signals(), _directory(resume) as directory:
            quick = many == "quick"
            compare_cases(
                names, registers(ctx), values, directory, quick=quick, repeat=repeat, as_json=as_json
            )
        return
    labels["engine"] = "--engines"
    load = partial(load_plan, ctx.params["experiment"], registers=registers(ctx), labels=labels)
    by_engine = keys_by_engine(values, names, registers(ctx))
    plans = {name: load({**keys, "engine": name}) for name, keys in by_engine.items()}
    first = plans[names[0]]

    def begin(point: Point) -> None:
        which = f"{point.repeat + 1}/{repeat} " if repeat > 1 else ""
        click.echo(f"{which}{point.settings['engine']}", err=True)

    verbose, jobs = ctx.meta[VERBOSE], [job.job.name for job in first.named_jobs]
    with (
        raised_signals(),
        _directory(resume) as directory,
        Live(first.iterations, quiet=False, verbose=verbose, lines=verbose, jobs=jobs) as live,
    ):
        agreements = run_on_all(plans, repeat, registers(ctx), directory, live.emit, begin)
    if as_json:
        pinned = first.at_scale(agreements[0].rate_scale)
        figures = [{**asdict(agreement), "within": agreement.within} for agreement in agreements]
        all_figures = {} if len(figures) == 1 else {"agreements": figures}
        print_json("compare-engines", experiment=pinned.document(), agreement=figures[0], **all_figures)
    else:
        print_text("\n\n".join(shown(agreement) for agreement in agreements))


@contextmanager
def _directory(resume: Path | None) -> Iterator[Path]:
    """That of the study: a new one under runs/, or one to go on with."""
    if resume is not None:
        yield resume
        return
    with study_directory("compare-engines") as directory:
        yield directory


def shown(agreement: Agreement) -> str:
    """The agreement as a table and lines."""
    first, second = agreement.engines
    cells = [
        (stage.name, *map(str, stage.iterations), *map(declared_time, stage.declared_us),
         percent(stage.difference), {None: "-", True: "yes", False: "NO"}[stage.within])
        for stage in agreement.stages
    ]  # fmt: skip
    lines = [
        table(("iterations", f"{first}:", f"{second}:", f"{first}", f"{second}", "apart", "within"), cells),
        f"declared times; rate scale {agreement.rate_scale:.4g} on both",
        *_pair("reroute", [None if s is None else f"{s:.2f} s after the fault" for s in agreement.reroute_s]),
        *_pair("moved to", agreement.chosen),
        f"scores at the end at most {agreement.score_difference:.2f} apart",
        *_congestion(agreement.congestion),
        f"verdicts {' and '.join(agreement.verdicts)}",
    ]
    return "\n".join(lines)


def _congestion(runs: Sequence[CongestionFigures]) -> list[str]:
    """A line for each figure that one of the engines knows, marks and CNPs only where there were any."""
    figures: dict[str, list[str | None]] = {
        "fairness of ranks": [None if run.fairness is None else f"{run.fairness:.4f}" for run in runs],
        "longest queue": [
            None if run.queue_bytes is None else f"{run.queue_bytes / 1e3:.4g} kB" for run in runs
        ],
    }
    if any(run.marked for run in runs):
        figures["marked"] = [
            None if run.marked is None else f"{100 * run.marked:.3g} % of packets" for run in runs
        ]
    if any(run.cnps for run in runs):
        figures["CNPs"] = [None if run.cnps is None else str(run.cnps) for run in runs]
    figures["pauses"] = [None if run.pauses is None else str(run.pauses) for run in runs]
    return [line for label, pair in figures.items() for line in _pair(label, pair, "not known")]


def _pair(label: str, pair: Sequence[str | None], nothing: str = "none") -> list[str]:
    if pair[0] is None and pair[1] is None:
        return []
    return [f"{label}: {pair[0] or nothing} and {pair[1] or nothing}"]


def percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:+.1f} %"
