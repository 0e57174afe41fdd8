"""Two equal jobs that use more and more rails together, compared: interference and fairness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from railweave.framework.errors import InputError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Fabric
from railweave.framework.studies.computing import Row
from railweave.framework.studies.sweep_file import Sweep
from railweave.framework.studies.sweeps import sweep_of_plan

SHARES = (0, 25, 50, 75)
"""Percent of each job's rails that the other uses as well."""


@dataclass(frozen=True, slots=True)
class SharedRails:
    """Two jobs over several runs; both use `percent` of the rails of each.

    `interference`: of each job, the median of the runs; `spread`: lowest and highest of both jobs in any run;
    `fairness`: median; None where no run tells.
    """

    percent: int
    repeats: int
    interference: tuple[float | None, float | None]
    spread: tuple[float, float] | None
    fairness: float | None
    wrong: int
    verdicts: tuple[str, ...]
    rate_scales: tuple[float, ...]


def jobs_sharing(fabric: Fabric, percent: int) -> list[str]:
    """Two jobs, each on half of the fabric's rails in all domains, which share `percent` of these.

    Raises InputError for a fabric whose rails do not allow that.
    """
    rails = fabric.groups[0].shape[fabric.axis_names.index("rail")] if "rail" in fabric.axis_names else 0
    half = rails // 2
    if rails == 0 or rails % 2 or half * percent % 100:
        reason = f"this {fabric.kind} has {rails or 'no'} rails"
        raise InputError(
            f"two jobs on half of the rails each cannot have {percent} % of them in common: {reason}. Take a "
            "multiple of 8 rails, such as --rails 8."
        )
    first = half - half * percent // 100
    return [
        f"name=first ranks=rail:0-{half - 1} share=true",
        f"name=second ranks=rail:{first}-{first + half - 1} share=true",
    ]


def sharing(plan: Plan, shares: Sequence[int], repeat: int) -> Sweep:
    """The sweep of an experiment with two jobs that have each of `shares` in common, `repeat` times. Raises
    InputError as `jobs_sharing`."""
    axis = [{"label": percent, "jobs": jobs_sharing(plan.fabric, percent)} for percent in shares]
    judge = {"figure": "interference"}
    return sweep_of_plan("compare-jobs", plan, {"percent": axis}, {"repeats": repeat, "judge": judge})


def compare_shares(results: Mapping[int, Sequence[Row]]) -> list[SharedRails]:
    """A row per percentage, in the order given, of the rows of its runs."""
    rows = []
    for percent, runs in results.items():
        first, second = ([x for run in runs if (x := run["interferences"][i]) is not None] for i in (0, 1))
        fairness = [run["fairness"] for run in runs if run["fairness"] is not None]
        rows.append(
            SharedRails(
                percent,
                len(runs),
                (median(first) if first else None, median(second) if second else None),
                (min(first + second), max(first + second)) if first or second else None,
                median(fairness) if fairness else None,
                sum(run["wrong"] for run in runs),
                tuple(run["verdict"] for run in runs),
                tuple(sorted({run["rate_scale"] for run in runs})),
            )
        )
    return rows
