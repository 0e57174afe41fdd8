"""What a run would take, of a plan that was checked and not started."""

from pathlib import Path
from typing import Any

import click

from railweave.framework import units
from railweave.framework.cli._context import json_text, print_json, table
from railweave.framework.experiment.plan import Plan
from railweave.framework.processes.memory import machine_bytes
from railweave.framework.results.directory import write_whole
from railweave.framework.runs.parts import InProcess


def show(plan: Plan, json_path: Path | None, *, as_json: bool) -> None:
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
    figures = {
        "engine": plan.experiment.engine.name,
        "fabric": {"kind": fabric.kind, "gpus": fabric.n_gpus, "links": fabric.n_links},
        "iterations": jobs,
        "events": estimate and estimate.events,
        "memory_bytes": estimate and estimate.memory_bytes,
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
        if estimate is None:
            click.echo(f"engine {plan.experiment.engine.name} does not say what a run takes")
        else:
            there = machine_bytes()
            of = "" if there is None else f" of {there / 1e9:.3g} GB"
            click.echo(
                f"at most {estimate.events} events, about {estimate.memory_bytes / 1e9:.3g} GB of memory{of}"
            )
    if isinstance(engine, InProcess):
        engine.check_room(plan)
