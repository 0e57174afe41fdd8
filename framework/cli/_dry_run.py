"""What a run would take, of a plan that was checked and not started."""

from pathlib import Path
from typing import Any

import click

from railweave.framework import units
from railweave.framework.cli._context import json_text, print_json, table
from railweave.framework.errors import InputError, MachineError
from railweave.framework.experiment.plan import Plan
from railweave.framework.processes.memory import machine_bytes
from railweave.framework.results.directory import write_whole
from railweave.framework.runs.parts import Foreseen, Foresees, InProcess


def foreseen(plan: Plan) -> Foreseen | None:
    """Time and memory of a run, of an engine that knows them beforehand."""
    return plan.engine.foresee(plan) if isinstance(plan.engine, Foresees) else None


def foreseen_text(ahead: Foreseen) -> str:
    """`about 43 s and 0.39 GB`."""
    return f"about {_duration(ahead.seconds)} and {ahead.memory_bytes / 1e9:.2g} GB of memory"


def check_foreseen(ahead: Foreseen, longest_s: float) -> None:
    """Raises InputError for a run that takes longer, MachineError for one that needs more memory than there
    is."""
    there = machine_bytes()
    if there is not None and ahead.memory_bytes > there:
        raise MachineError(
            f"the run needs about {ahead.memory_bytes / 1e9:.3g} GB of memory, most of it data of the ranks, "
            f"and this machine has {there / 1e9:.3g} GB. Lower the size, or use `--engine fluid`."
        )
    if ahead.seconds > longest_s:
        raise InputError(
            f"the run would take about {_duration(ahead.seconds)}, at a rate scale of "
            f"{ahead.rate_scale:.2g}, and --longest is {_duration(longest_s)}. Lower the size or iterations, "
            "use `--engine fluid`, or raise --longest."
        )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def show(plan: Plan, json_path: Path | None, *, as_json: bool, longest_s: float) -> None:
    """Print it, as JSON with `as_json` or into `json_path`. Raises MachineError where the machine has too
    little."""
    engine, fabric = plan.engine, plan.fabric
    jobs: list[dict[str, Any]] = [
        {
            "job": job.job.name,
            "ranks": len(job.ranks),
            "size_bytes": schedule.size_bytes,
            "pairs": len(schedule.pairs()[0]),
            "transfers": schedule.n_transfers,
            "sent_bytes": int(schedule.pairs()[2].sum()),
        }
        for job in plan.each
        for schedule in (() if job.experiment.program else job.schedules)
    ]
    estimate = engine.estimate(plan) if isinstance(engine, InProcess) else None
    ahead = foreseen(plan)
    memory = estimate and estimate.memory_bytes
    figures = {
        "engine": plan.experiment.engine.name,
        "fabric": {"kind": fabric.kind, "gpus": fabric.n_gpus, "links": fabric.n_links},
        "iterations": jobs,
        "events": estimate and estimate.events,
        "memory_bytes": ahead.memory_bytes if ahead else memory,
        "seconds": ahead and ahead.seconds,
        "machine_bytes": machine_bytes(),
    }
    if json_path is not None:
        write_whole(json_path, json_text("dry-run", **figures).encode())
    if as_json:
        print_json("dry-run", **figures)
    else:
        click.echo(f"{fabric.kind}: {fabric.n_gpus} GPUs, {fabric.n_links} links")
        head = ("job", "ranks", "size", "pairs", "transfers", "sent")
        click.echo(table(head, [
            (job["job"], job["ranks"], units.size(job["size_bytes"]), job["pairs"], job["transfers"],
             f"{job['sent_bytes'] / 1e9:.3g} GB")
            for job in jobs
        ]))  # fmt: skip
        if ahead is not None:
            click.echo(f"takes {foreseen_text(ahead)}, at a rate scale of about {ahead.rate_scale:.2g}")
        elif estimate is None:
            click.echo(f"engine {plan.experiment.engine.name} does not say what a run takes")
        else:
            there = machine_bytes()
            of = "" if there is None else f" of {there / 1e9:.3g} GB"
            click.echo(
                f"at most {estimate.events} events, about {estimate.memory_bytes / 1e9:.3g} GB of memory{of}"
            )
    if isinstance(engine, InProcess):
        engine.check_room(plan)
    if ahead is not None:
        check_foreseen(ahead, longest_s)
