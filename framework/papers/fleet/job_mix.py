"""Which jobs a pod gets: shapes in cubes, durations, what circuits they need; and when they arrive, of many
replicas side by side."""

import re
from dataclasses import dataclass
from math import inf, prod

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.papers.fleet.component_failures import Draws, Period
from railweave.framework.papers.fleet.pod import CIRCUITS_PER_AXIS, SWITCHES, Pod
from railweave.framework.parameters.units import parse_ratio, parse_time

DAY_S = 86400.0
"""Seconds."""
_SHAPE = re.compile(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){2}")

TYPICAL = ("1x1x1:40%:12h", "1x1x2:25%:12h", "1x2x2:15%:24h", "2x2x2:15%:24h", "2x2x4:5%:48h")
"""Jobs where nothing else is said, as `parse_kind` takes them; assumed."""
STREAM = 3
"""Streams 0 to 2 are failures of hosts, cables and OCSes."""


@dataclass(frozen=True, slots=True)
class SliceKind:
    """Jobs of one shape: cubes along X, Y and Z, their share of all jobs, and their mean duration."""

    shape: tuple[int, int, int]
    share: float
    mean_days: float

    @property
    def cubes(self) -> int:
        return prod(self.shape)

    @property
    def circuits(self) -> int:
        """Circuits of the slice: every cube has one in each OCS, from its + face to the - face of the next
        cube or, where the slice is one cube long, to its own."""
        return SWITCHES * self.cubes

    @property
    def circuits_of_swap(self) -> int:
        """Circuits to set when another cube takes the place of one: to both neighbours along every axis, or
        to itself."""
        return sum(CIRCUITS_PER_AXIS * (1 if length == 1 else 2) for length in self.shape)

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))


@dataclass(frozen=True, slots=True)
class JobMix:
    """Jobs arrive as a Poisson process; `opt_in` is the share that may run on fault-tolerant routes.

    Raises ExperimentError for shares that do not add up to 1 and for impossible rates and durations.
    """

    kinds: tuple[SliceKind, ...]
    per_day: float
    opt_in: float

    def __post_init__(self) -> None:
        if not 0 < self.per_day < inf:
            raise ExperimentError(f"{self.per_day:g} jobs a day: it takes a number above 0.")
        if abs(sum(kind.share for kind in self.kinds) - 1) > 1e-9:
            listed = " + ".join(f"{100 * kind.share:g}%" for kind in self.kinds) or "nothing"
            raise ExperimentError(f"the shares of jobs add up to {listed}, not to 100%. Correct one of them.")
        for kind in self.kinds:
            if not 0 < kind.mean_days < inf:
                raise ExperimentError(
                    f"jobs of {kind} that take no time: give a duration above 0, as in 12h."
                )

    def column(self, name: str) -> Float:
        """(kinds,): one of a kind's quantities."""
        return np.array([getattr(kind, name) for kind in self.kinds], float)

    @property
    def cubes(self) -> Int64:
        """(kinds,)."""
        return self.column("cubes").astype(np.int64)

    def check(self, pod: Pod) -> None:
        """Raise ExperimentError for a shape that the pod never has room for."""
        for kind in self.kinds:
            if kind.cubes > pod.for_jobs:
                raise ExperimentError(
                    f"a job of {kind} needs {kind.cubes} cubes; of {pod.cubes}, less {pod.spares} spare, "
                    f"jobs have {pod.for_jobs}. Choose a smaller shape, more cubes or fewer spares."
                )


def parse_kind(text: str) -> SliceKind:
    """The jobs of `1x2x2:15%:24h`: shape in cubes, share, mean duration (s, min, h, or d for days).

    Raises ExperimentError naming the part that cannot be read.
    """
    parts = text.split(":")
    if len(parts) != 3 or not _SHAPE.fullmatch(parts[0]):
        raise ExperimentError(
            f"{text!r} is not SHAPE:SHARE:DURATION. Write the shape in cubes, as in 1x2x2:15%:24h."
        )
    try:
        share = parse_ratio(parts[1])
    except ValueError:
        raise ExperimentError(f"{text!r}: {parts[1]!r} is not a share. Write 0.15 or 15%.") from None
    x, y, z = (int(length) for length in parts[0].split("x"))
    return SliceKind((x, y, z), share, parse_days(parts[2], text))


def parse_days(text: str, where: str) -> float:
    """Days of `4h`, `90min`, `2d`. Raises ExperimentError, which names `where` it stands."""
    try:
        if text.endswith("d"):
            return float(text[:-1])
        if not text[-1:].isalpha():
            raise ValueError(text)
        return parse_time(text) / DAY_S
    except ValueError:
        raise ExperimentError(f"{where}: {text!r} is not a time with its unit. Write 12h or 3d.") from None


@dataclass(frozen=True, slots=True)
class JobStream:
    """Jobs in order of arrival, (most jobs, replicas) each, [job, replica].

    `arrival`: day, inf behind the last job of a replica; `kind`: index into the mix; `days`: how long the job
    takes; `opts_in`: whether it may run on fault-tolerant routes.
    """

    arrival: Float
    kind: Int64
    days: Float
    opts_in: Bool


def draw_jobs(mix: JobMix, period: Period, draws: Draws) -> JobStream:
    """Poisson arrivals, kinds by their shares, exponential durations."""
    length = period.days + period.warm_up
    generators = [
        [draws.generator(replica, STREAM, stream) for stream in range(4)] for replica in range(draws.replicas)
    ]
    number = [int(streams[0].poisson(mix.per_day * length)) for streams in generators]
    most = max(number)
    edges = np.cumsum(mix.column("share"))[:-1]
    arrival = np.full((draws.replicas, most), np.inf)
    kind = np.zeros((draws.replicas, most), np.int64)
    days, opts_in = np.zeros_like(arrival), np.zeros_like(kind, dtype=bool)
    for replica, (total, (when, which, how_long, opting)) in enumerate(zip(number, generators, strict=True)):
        row = replica, slice(total)
        arrival[row] = np.sort(when.random(total)) * length - period.warm_up
        kind[row] = np.searchsorted(edges, which.random(total), side="right")
        days[row] = how_long.exponential(size=total) * mix.column("mean_days")[kind[row]]
        opts_in[row] = opting.random(total) < mix.opt_in
    return JobStream(*(np.ascontiguousarray(values.T) for values in (arrival, kind, days, opts_in)))
