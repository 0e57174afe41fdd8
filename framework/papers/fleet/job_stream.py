"""Jobs as they arrive, of many replicas side by side."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.papers.fleet.component_failures import Draws, Period
from railweave.framework.papers.fleet.job_mix import JobMix

STREAM = 3
"""Streams 0 to 2 are failures of hosts, cables and OCSes."""


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
