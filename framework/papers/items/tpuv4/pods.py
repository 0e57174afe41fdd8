"""Items about a year of a pod: what fails, the circuits of jobs, their fault-tolerant routes."""

from functools import cache

from railweave.framework.papers.fleet.component_failures import Draws
from railweave.framework.papers.fleet.job_mix import TYPICAL, JobMix, parse_days, parse_kind
from railweave.framework.papers.fleet.pod import (
    CABLES_PER_CUBE,
    HOSTS_PER_CUBE,
    SWITCHES,
    FailureRates,
    Pod,
)
from railweave.framework.papers.fleet.year import Fleet, FleetYear, simulate
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.workbench import Workbench

DAYS, SEEDS = 365, 60
"""Simulated days of a pod, and pods."""
REPAIRS = ("4h", "12h", "24h")


def t10(workbench: Workbench, *, hosts: float = 0.0008, cables: float = 5e-5, ocs: float = 4e-4) -> Claims:
    """Failures in a year over the components that there are, and what is up."""
    pod = Pod()
    year = _years(FailureRates(hosts, cables, ocs), 12.0, 0.95)[1].availability
    kinds = (
        ("hosts that fail in a day", 0.08, year.host_failures, pod.cubes * HOSTS_PER_CUBE),
        ("cables that fail in a day", 0.005, year.cable_failures, pod.cubes * CABLES_PER_CUBE),
        ("OCSes that fail in a day", 0.04, year.ocs_failures, SWITCHES),
    )
    return Claims(
        (
            *(Claim(name, rate, 100 * failed.mean / DAYS / n, "%") for name, rate, failed, n in kinds),
            Claim("cubes up, repairs of 12 h", None, 100 * year.cubes_up.mean, "%"),
            Claim("60 of 64 cubes up, repairs of 12 h", None, 100 * year.pod_up.mean, "%"),
        )
    )


def t11(workbench: Workbench, *, jobs_a_day: float = 12.0) -> Claims:
    """Circuits by the jobs that start: of all, of the busiest day, of cubes that are replaced."""
    year = _years(FailureRates(), jobs_a_day, 0.95)[1].jobs
    return Claims(
        (
            Claim("jobs that start in a day", None, year.started.mean),
            Claim("circuits of a job", None, year.circuits_per_job.mean),
            Claim("circuits in a day", None, year.circuits_started.mean),
            Claim("circuits on the busiest day", None, year.busiest_day.mean),
            Claim("circuits in a day for cubes replaced", None, year.circuits_swapped.mean),
        )
    )


def t12(workbench: Workbench, *, opt_in: float = 0.95) -> Claims:
    """The share of jobs on fault-tolerant routes at a time, by the mean time to repair."""
    years = _years(FailureRates(), 12.0, opt_in)
    shares = {repair: 100 * year.jobs.tolerant.mean for repair, year in zip(REPAIRS, years, strict=True)}
    of_time = (
        Claim(f"jobs on fault-tolerant routes, repairs of {repair}", 2.0, share, "%", bound="<")
        for repair, share in shares.items()
    )
    return Claims((*of_time, Claim("jobs that opt in", 95.0, 100 * opt_in, "%")))


@cache
def _years(rates: FailureRates, jobs_a_day: float, opt_in: float) -> tuple[FleetYear, ...]:
    mix = JobMix(tuple(parse_kind(text) for text in TYPICAL), jobs_a_day, opt_in)
    repair_days = tuple(parse_days(text, "repair") for text in REPAIRS)
    return simulate(Fleet(Pod(), rates, mix, DAYS, Draws(SEEDS, 1)), repair_days)
