"""The same experiment under several routers and modes, compared: medians, spread, ratio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from railweave.framework.errors import InputError, did_you_mean
from railweave.framework.experiment.modes import MODES
from railweave.framework.experiment.plan import Plan
from railweave.framework.studies.computing import Row
from railweave.framework.studies.sweep_file import Sweep
from railweave.framework.studies.sweeps import as_written, sweep_of_plan


@dataclass(frozen=True, slots=True)
class Variant:
    """A router, and what it is told about health: a key of MODES."""

    router: str
    mode: str = "feedback"

    @property
    def name(self) -> str:
        return self.router if self.mode == "feedback" else f"{self.router} ({self.mode.replace('-', ' ')})"

    @property
    def keys(self) -> dict[str, object]:
        """The keys of the experiment that make it this variant."""
        return {"router": self.router, **MODES[self.mode]}


def variants_of(routers: Sequence[str], modes: Sequence[str]) -> list[Variant]:
    """Every router in every mode. Raises InputError for a mode that does not exist."""
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise InputError(
            f"modes: {unknown[0]!r} is none of {', '.join(MODES)}.{did_you_mean(unknown[0], MODES)}"
        )
    return [Variant(router, mode) for router in routers for mode in modes]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One variant over its repeats. Times are declared, in microseconds, so that runs at different rate
    scales compare.

    `healthy_us`: median iteration before the first fault; `faulted_us`: of the later half of the iterations
    that began after it, when routes have had time to change; `spread_us`: lowest and highest median of a
    single run; `ratio`: the first variant's `faulted_us` over this one's; `rate_scales`: of all runs,
    ascending.
    """

    variant: Variant
    repeats: int
    healthy_us: float | None
    faulted_us: float | None
    spread_us: tuple[float, float] | None
    ratio: float | None
    wrong: int
    verdicts: tuple[str, ...]
    rate_scales: tuple[float, ...]


def comparing(plans: Mapping[Variant, Plan], repeat: int) -> Sweep:
    """The sweep of the plans of one experiment, each `repeat` times. Raises InputError for several jobs."""
    first, plan = next(iter(plans.items()))
    if len(plan.jobs) > 1:
        raise InputError("jobs: routers are compared with one job. Leave out all jobs but one.")
    routers = {variant.router: as_written(plan)["router"] for variant, plan in plans.items()}
    axes = {
        "router": [{"label": name, **router} for name, router in routers.items()],
        "mode": [{"label": mode, **MODES[mode]} for mode in dict.fromkeys(v.mode for v in plans)],
    }
    judge = {"figure": "settled_us", "to": {"router": first.router, "mode": first.mode}}
    return sweep_of_plan("compare", plan, axes, {"repeats": repeat, "judge": judge})


def variant_of(settings: Mapping[str, object]) -> Variant:
    """The variant of a point of `comparing`."""
    return Variant(str(settings["router"]), str(settings["mode"]))


def compare(results: Mapping[Variant, Sequence[Row]]) -> list[Comparison]:
    """A row per variant, in the order given, of the rows of its runs; ratios are to the first."""
    compared: list[Comparison] = []
    for variant, runs in results.items():
        healthy = [run["before_us"] for run in runs if run["before_us"] is not None]
        faulted = [run["settled_us"] for run in runs if run["faults_at"] and run["settled_us"] is not None]
        middle = median(faulted) if faulted else None
        first = compared[0].faulted_us if compared else middle
        compared.append(
            Comparison(
                variant,
                repeats=len(runs),
                healthy_us=median(healthy) if healthy else None,
                faulted_us=middle,
                spread_us=(min(faulted), max(faulted)) if faulted else None,
                ratio=first / middle if first and middle else None,
                wrong=sum(run["wrong"] for run in runs),
                verdicts=tuple(run["verdict"] for run in runs),
                rate_scales=tuple(sorted({run["rate_scale"] for run in runs})),
            )
        )
    return compared
