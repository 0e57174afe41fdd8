"""What the computed year takes for granted, and where each of it stands."""

from dataclasses import dataclass

from railweave.framework.papers.fleet.pod import (
    CABLES_PER_CUBE,
    ELECTRICAL_CABLES,
    HOSTS_PER_CUBE,
    OPTICAL_CABLES,
    SWITCHES,
)
from railweave.framework.papers.fleet.year import Fleet

ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Assumption:
    """A statement and its source: a section or figure of the paper, another paper, or `ASSUMED`."""

    text: str
    source: str


def assumptions(fleet: Fleet, *, own_rates: bool, own_jobs: bool) -> tuple[Assumption, ...]:
    """In the order of the computation. `own_rates`, `own_jobs`: the caller's in place of the defaults."""
    rates, pod, mix = fleet.rates, fleet.pod, fleet.mix
    shares = ((100 * rates.hosts, "hosts"), (100 * rates.cables, "cables"), (100 * rates.ocs, "OCSes"))
    per_day = ", ".join(f"{share:g} % of {parts}" for share, parts in shares)
    kinds = ", ".join(f"{100 * kind.share:g} % {kind} for {24 * kind.mean_days:g} h" for kind in mix.kinds)
    taken = "given" if own_jobs else ASSUMED
    return (
        Assumption(f"{per_day} fail in a day", "given" if own_rates else "figure 12"),
        Assumption("times between failures and times to repair are exponential and independent", ASSUMED),
        Assumption("mean times to repair, the same for hosts, cables and OCSes", ASSUMED),
        Assumption(
            f"a cube has 64 chips and {HOSTS_PER_CUBE} hosts; {SWITCHES} OCSes join the cubes",
            "Jouppi et al., ISCA 2023, section 2",
        ),
        Assumption(
            f"a cube has {CABLES_PER_CUBE} cables, {OPTICAL_CABLES} optical and {ELECTRICAL_CABLES} "
            "electrical, which fail at one rate",
            ASSUMED,
        ),
        Assumption("a cube is down while one of its hosts or cables is", "section 5; for cables " + ASSUMED),
        Assumption("without OCSes a slice is one of the blocks that tile the pod", ASSUMED),
        Assumption(f"{pod.spares} of {pod.cubes} cubes are kept in reserve", ASSUMED),
        Assumption(f"{mix.per_day:g} jobs a day: {kinds} on average", taken),
        Assumption("arrivals are a Poisson process, durations exponential", ASSUMED),
        Assumption(
            "a failed cube is replaced by any that is free, at once and without lost work; without one the "
            "job moves to another pod, as does a job that finds no room",
            "section 5; times " + ASSUMED,
        ),
        Assumption("every slice is of whole cubes and uses all OCSes", "sections 4 and 5"),
        Assumption(
            f"{100 * mix.opt_in:g} % of jobs opt in and run on while one OCS is down; the others move to "
            "another pod, and with two down all do",
            ("given" if own_jobs else "section 5.3") + "; the rest " + ASSUMED,
        ),
        Assumption("circuits of a slice are all set when it starts, 48 a cube", ASSUMED),
    )
