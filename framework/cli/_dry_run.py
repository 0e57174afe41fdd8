"""What a run would take, of a plan that was checked and not started."""

from pathlib import Path

from railweave.framework.api.forecast import check_memory, forecast
from railweave.framework.cli._context import json_text, print_json, print_text, table
from railweave.framework.errors import InputError
from railweave.framework.experiment.engines import instead
from railweave.framework.experiment.plan import Plan
from railweave.framework.parameters import units
from railweave.framework.registry import Registers
from railweave.framework.results.directory import write_whole


def estimate_text(plan: Plan) -> str:
    """`about 43 s and 0.39 GB of memory`, as far as it is known; "" where nothing is."""
    ahead = plan.estimate
    parts = [f"about {duration(ahead.seconds)}"] if ahead.seconds is not None else []
    if ahead.memory_bytes is not None:
        parts.append(f"{'' if parts else 'about '}{ahead.memory_bytes / 1e9:.2g} GB of memory")
    return " and ".join(parts)


def check_estimate(plan: Plan, registers: Registers, longest_s: float) -> None:
    """Raises InputError for a run that takes longer, MachineError for one that needs more memory than there
    is."""
    check_memory(plan, registers)
    ahead = plan.estimate
    if ahead.seconds is not None and ahead.seconds > longest_s:
        at = "" if ahead.rate_scale is None else f", at a rate scale of {ahead.rate_scale:.2g}"
        raise InputError(
            f"the run would take about {duration(ahead.seconds)}{at}, and --longest is "
            f"{duration(longest_s)}. Lower the size or iterations, raise --longest{instead(registers)}."
        )


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def show(
    plan: Plan, registers: Registers, json_path: Path | None, *, as_json: bool, longest_s: float
) -> None:
    """Print it, as JSON with `as_json` or into `json_path`. Raises MachineError where the machine has too
    little."""
    fabric, figures = plan.fabric, forecast(plan)
    ahead, machine_bytes = plan.estimate, figures["machine_bytes"]
    if json_path is not None:
        write_whole(json_path, json_text("dry-run", **figures).encode())
    if as_json:
        print_json("dry-run", **figures)
    else:
        print_text(f"{fabric.kind}: {fabric.n_gpus} GPUs, {fabric.n_links} links")
        head = ("job", "ranks", "size", "pairs", "transfers", "sent")
        print_text(table(head, [
            (job["job"], job["ranks"], units.size(job["size_bytes"]), job["pairs"], job["transfers"],
             f"{job['sent_bytes'] / 1e9:.3g} GB")
            for job in figures["iterations"]
        ]))  # fmt: skip
        takes = estimate_text(plan)
        at = "" if ahead.rate_scale is None else f", at a rate scale of about {ahead.rate_scale:.2g}"
        events = "" if ahead.events is None else f"; at most {ahead.events} events"
        limit = "" if machine_bytes is None else f" of {machine_bytes / 1e9:.3g} GB"
        name = plan.experiment.engine.name
        print_text(
            f"takes {takes}{limit}{at}{events}" if takes else f"engine {name} does not say what a run takes"
        )
    check_estimate(plan, registers, longest_s)
