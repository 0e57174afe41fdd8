"""What a run would take, of a plan that was checked and not started."""

from typing import Any

from railweave.framework.experiment.plan import Plan
from railweave.framework.processes.memory import machine_bytes
from railweave.framework.runs.runner import check_memory

__all__ = ["check_memory", "forecast"]


def forecast(plan: Plan) -> dict[str, Any]:
    """The figures of `--dry-run`: what each job sends; events, memory and seconds by the engine's estimate,
    None where it does not say.

    >>> figures = forecast(rw.load(engine="fluid", domains=2, rails=2, size="64K"))
    >>> figures["fabric"]
    {'kind': 'rail-only', 'gpus': 4, 'links': 16}
    """
    fabric, ahead = plan.fabric, plan.estimate
    jobs = [
        {
            "job": job.job.name,
            "ranks": len(job.ranks),
            "size_bytes": schedule.size_bytes,
            "pairs": len(schedule.pairs()[0]),
            "transfers": schedule.n_transfers,
            "sent_bytes": int(schedule.pairs()[2].sum()),
        }
        for job in plan.jobs
        for schedule in (() if job.experiment.program else job.schedules)
    ]
    return {
        "engine": plan.experiment.engine.name,
        "fabric": {"kind": fabric.kind, "gpus": fabric.n_gpus, "links": fabric.n_links},
        "iterations": jobs,
        "events": ahead.events,
        "memory_bytes": ahead.memory_bytes,
        "seconds": ahead.seconds,
        "machine_bytes": machine_bytes(),
    }
