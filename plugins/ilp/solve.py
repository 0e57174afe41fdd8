"""From a torus and its dead links to one path per pair: relax, round, search, and solve exactly what remains.

Measured on 2 cores: 8x8x8 with one OCS down takes some 7 s of CPU and ends at 547, which the LP bound of
546.13 (15/16 of the healthy throughput) proves optimal. To see it:

    railweave explain 0,0,0 1,0,0 --topology torus --shape 8x8x8 --router ilp --fault "down ocs:X:0,0"
"""

import time
from math import ceil

import numpy as np

from railweave.framework.errors import UnsupportedFabricError
from railweave.framework.model.arrays import Int64
from railweave.plugins.ilp.candidates import Candidates, candidates
from railweave.plugins.ilp.problem import Problem
from railweave.plugins.ilp.program import BELOW, exact, relaxed
from railweave.plugins.ilp.search import improved, rounded
from railweave.plugins.ilp.solution import Solution

LIMIT_S = 60.0
MOST_PAIRS = 1 << 16
"""Sources that differ x destinations: what a linear program of a minute can hold."""

MOST_EXACT = 30_000
"""Candidates up to which Boolean programs are tried: 4x4x4 has 23,000; with twice that a minute brought
nothing."""


def solve(problem: Problem, limit_s: float = LIMIT_S) -> Solution:
    """The paths with the least maximum load for all-to-all that the search reaches, in the canonical place of
    the fault.

    Maximum concurrent flow with Boolean paths: throughput is capacity over the maximum load. Source: Zu et
    al., NSDI'24 (offline optimiser). Within `limit_s` equal problems give equal answers.

    Raises UnsupportedFabricError where the fault leaves too little symmetry for a program of this size.
    """
    n, rows, axes = problem.lattice.n_gpus, len(problem.representatives), len(problem.lattice.shape)
    if rows * (n - 1) > MOST_PAIRS:
        raise UnsupportedFabricError(
            f"router ilp: with {len(problem.fault)} links of this torus of {n} GPUs down, {rows} sources "
            f"differ, so "
            f"{rows * (n - 1)} pairs would have to be chosen and {MOST_PAIRS} is the most. Faults that "
            f"repeat, such as "
            "an OCS down, leave fewer. Use `--router wfr` here."
        )
    began, began_cpu = time.perf_counter(), time.process_time()
    some = candidates(problem)
    chosen, bound = _chosen(some, began + limit_s)
    wild = np.full(rows * n, -1, np.int64)
    vector = np.zeros((axes, rows * n), np.int64)
    wild[some.pair], vector[:, some.pair] = some.wild[chosen], some.vector[:, chosen]
    return Solution(
        int(some.loads(chosen).max(initial=0)),
        bound,
        time.perf_counter() - began,
        time.process_time() - began_cpu,
        limit_s,
        wild.reshape(rows, n),
        vector.reshape(axes, rows, n),
    )


def _chosen(some: Candidates, until: float) -> tuple[Int64, float]:
    """(candidate of each pair, bound). The solvers share the time that is left; the search is bounded by
    rounds."""
    if not len(some.pair):
        return np.empty(0, np.int64), 0.0
    answer = relaxed(some, _left(until))
    bound = answer.bound
    goal = ceil(bound - BELOW)
    chosen = improved(some, rounded(some, answer.share), goal)
    if some.loads(chosen).max() > goal and len(some.wild) <= MOST_EXACT:
        better = exact(some, chosen, _left(until))
        bound = max(bound, better.bound)
        candidate = rounded(some, better.share)
        if some.loads(candidate).max() < some.loads(chosen).max():
            chosen = candidate
    return chosen, bound


def _left(until: float) -> float:
    return max(until - time.perf_counter(), 0.1)
