"""What `railweave model fleet` prints: tables with a row for each repair time, or one document."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from railweave.framework.cli._context import table
from railweave.framework.papers.fleet.assumptions import Assumption
from railweave.framework.papers.fleet.pod import CHIPS_PER_CUBE
from railweave.framework.papers.fleet.seed_interval import SeedMean
from railweave.framework.papers.fleet.year import Fleet, FleetYear

MOST_DIGITS = 7
"""Decimals of a percentage at most, for those close to 100 %."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """A year of a pod at each repair time."""

    fleet: Fleet
    years: Sequence[FleetYear]
    assumptions: Sequence[Assumption]

    def document(self) -> dict[str, object]:
        """For JSON: shares are 0..1, circuits and jobs are per day, failures per year."""
        fleet = self.fleet
        return {
            "pod": asdict(fleet.pod),
            "failures_per_component_and_day": asdict(fleet.rates),
            "job_mix": asdict(fleet.mix),
            "days": fleet.days,
            "seeds": fleet.draws.replicas,
            "seed": fleet.draws.seed,
            "repair_times": [asdict(year) for year in self.years],
            "assumptions": [asdict(assumption) for assumption in self.assumptions],
        }

    def text(self) -> str:
        pod = self.fleet.pod
        head = (
            f"pod of {pod.cubes} cubes ({pod.cubes * CHIPS_PER_CUBE} chips), {pod.spares} spare; "
            f"{self.fleet.days} days, {self.fleet.draws.replicas} seeds; mean [95 % interval]"
        )
        stated = table(
            ("assumption", "source"),
            [(assumption.text, assumption.source) for assumption in self.assumptions],
        )
        parts = (self._up(), self._slices(), self._circuits(), self._moves(), self._routes(), stated)
        return "\n\n".join([head, *parts])

    def _up(self) -> str:
        pod = self.fleet.pod
        columns = (
            *("repair", "hosts failed/yr", "cables", "OCSes"),
            *("host up", "cube up", f"{pod.for_jobs} of {pod.cubes} cubes up", "all OCSes up"),
        )
        rows = [
            (
                _time(year),
                *(_number(x) for x in (up.host_failures, up.cable_failures, up.ocs_failures)),
                *(_percent(x) for x in (up.hosts_up, up.cubes_up, up.pod_up, up.every_ocs_up)),
            )
            for year in self.years
            for up in (year.availability,)
        ]
        return table(columns, rows)

    def _slices(self) -> str:
        """A row for each size of slice, two columns for each repair time."""
        titles = (f"{kind}, {_time(year)}" for year in self.years for kind in ("circuits", "fixed"))
        rows = [
            (
                same_size[0].chips,
                *(_percent(share) for size in same_size for share in (size.reconfigurable, size.fixed)),
            )
            for same_size in zip(*(year.availability.slices for year in self.years), strict=True)
        ]
        title = "share of the pod's cubes in whole slices"
        meaning = "circuits: any cubes that are up; fixed: blocks that tile the pod"
        return f"{title} ({meaning})\n{table(('chips', *titles), rows)}"

    def _circuits(self) -> str:
        columns = (
            "repair",
            "jobs started/day",
            "circuits/job",
            "circuits/day",
            "busiest day",
            "for swaps/day",
        )
        rows = [
            (
                _time(year),
                _number(jobs.started),
                _number(jobs.circuits_per_job),
                _number(jobs.circuits_started),
                _number(jobs.busiest_day),
                _number(jobs.circuits_swapped),
            )
            for year in self.years
            for jobs in (year.jobs,)
        ]
        return "circuits that jobs need\n" + table(columns, rows)

    def _moves(self) -> str:
        columns = (
            *("repair", "jobs running", "cubes in use", "turned away"),
            *("cubes swapped/day", "moved, no cube/day", "moved, OCS down/day"),
        )
        rows = [
            (
                _time(year),
                _number(jobs.running),
                _percent(jobs.cubes_used),
                _percent(jobs.turned_away),
                *(_number(x) for x in (jobs.swaps, jobs.moved_no_cube, jobs.moved_no_routes)),
            )
            for year in self.years
            for jobs in (year.jobs,)
        ]
        return "jobs\n" + table(columns, rows)

    def _routes(self) -> str:
        columns = ("repair", "at a time", "kept to the job's end", "of all jobs that start")
        rows = [
            (_time(year), *map(_percent, (jobs.tolerant, jobs.tolerant_to_end, jobs.tolerant_jobs)))
            for year in self.years
            for jobs in (year.jobs,)
        ]
        return "share of jobs on fault-tolerant routes\n" + table(columns, rows)


def _time(year: FleetYear) -> str:
    return f"{24 * year.repair_days:.4g}h"


def _number(value: SeedMean) -> str:
    return f"{value.mean:.4g} [{value.low:.4g}, {value.high:.4g}]"


def _percent(value: SeedMean) -> str:
    """In percent, with as many digits as tell the mean from 100 %."""
    mean, low, high = (100 * x for x in (value.mean, value.low, value.high))
    digits = next((n for n in range(2, MOST_DIGITS) if round(mean, n) < 100), 2)
    return f"{mean:.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}]"
