"""From a torus and its dead links to one path per pair: relax, round, search, and solve exactly what remains.

Measured on 2 cores: 8x8x8 with one OCS down takes some 7 s of CPU and ends at 547, which the LP bound of
546.13 (15/16 of the healthy throughput) proves optimal. To see it:

    railweave explain 0,0,0 1,0,0 --topology torus --shape 8x8x8 --router ilp --fault "down ocs:X:0,0"
"""

import time
from math import ceil

import numpy as np

from railweave.framework.errors import UnsupportedFabricError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import spread
from railweave.plugins.ilp.candidates import Candidates, candidates
from railweave.plugins.ilp.problem import Problem
from railweave.plugins.ilp.program import BELOW, exact, relaxed
from railweave.plugins.ilp.solution import Solution

LIMIT_S = 60.0
MOST_PAIRS = 1 << 16
"""Sources that differ x destinations: what a linear program of a minute can hold."""

MOST_EXACT = 30_000
"""Candidates up to which Boolean programs are tried: 4x4x4 has 23,000; with twice that a minute brought
nothing."""

STEEP = 2.0
"""What one more unit on a link multiplies its price by."""
RANGE = 40.0
"""Links this much below the goal are free."""
ROUNDS = 3000
PATIENCE = 300
"""Rounds without a better maximum before it gives up."""
BATCH = 256
"""Moves tried per round, the most promising first."""
KICKS = 8
"""Pairs over the busiest links that are moved at random where nothing gets better."""


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


def rounded(some: Candidates, share: Float | None) -> Int64:
    """(P,): the candidate with the largest share of each pair, the first of equals; without shares the
    first."""
    if share is None:
        return some.start[:-1].copy()
    owner = some.owner
    order = np.lexsort((np.arange(len(owner)), -np.round(share, 6), owner))
    return order[some.start[:-1]]


def improved(some: Candidates, chosen: Int64, goal: int, *, rounds: int = ROUNDS) -> Int64:
    """(P,): a choice whose busiest link carries less, down to `goal` at best.

    Links have prices that grow steeply with their load; pairs move to cheaper candidates, the best gains
    first, each checked against the loads as they are by then. Where no move helps, some pairs over the
    busiest links are moved at random (from a fixed seed: equal problems give equal answers).
    """
    rng = np.random.default_rng(0)
    chosen, loads = chosen.copy(), some.loads(chosen)
    best, best_max, idle = chosen.copy(), int(loads.max(initial=0)), 0
    owner = some.owner
    for _ in range(rounds):
        if best_max <= goal or idle >= PATIENCE:
            break
        cost = some.costs(_price(loads, goal))
        gain = cost[chosen][owner] - cost
        promising = np.flatnonzero(gain > 1e-9)
        if len(promising) > BATCH:
            promising = promising[np.argpartition(-gain[promising], BATCH)[:BATCH]]
        promising = promising[np.argsort(-gain[promising], kind="stable")]
        if not sum(_moved(some, chosen, loads, int(c), int(owner[c]), goal) for c in promising):
            _kick(some, chosen, loads, rng)
        highest = int(loads.max())
        idle += 1
        if highest < best_max:
            best, best_max, idle = chosen.copy(), highest, 0
    return best


def _price(loads: Int64, goal: int) -> Float:
    over = loads - float(goal)
    return np.where(over > -RANGE, STEEP ** np.minimum(over, RANGE), 0.0)


def _classes(some: Candidates, candidate: int) -> Int64:
    return some.link_class[some.hop_start[candidate] : some.hop_start[candidate + 1]]


def _moved(some: Candidates, chosen: Int64, loads: Int64, candidate: int, pair: int, goal: int) -> bool:
    """Moves the pair if that lowers the sum of prices; returns whether it did."""
    old, new = _classes(some, int(chosen[pair])), _classes(some, candidate)
    touched = np.unique(np.concatenate((old, new)))
    before = _price(loads[touched], goal).sum()
    np.subtract.at(loads, old, 1)
    np.add.at(loads, new, 1)
    if _price(loads[touched], goal).sum() < before - 1e-12:
        chosen[pair] = candidate
        return True
    np.add.at(loads, old, 1)
    np.subtract.at(loads, new, 1)
    return False


def _kick(some: Candidates, chosen: Int64, loads: Int64, rng: np.random.Generator) -> None:
    busy = loads == loads.max()
    length = np.diff(some.hop_start)[chosen]
    hops = spread(some.hop_start[chosen], length)
    pairs = np.unique(np.repeat(np.arange(len(chosen)), length)[busy[some.link_class[hops]]])
    for pair in rng.choice(pairs, min(KICKS, len(pairs)), replace=False):
        candidate = int(rng.integers(some.start[pair], some.start[pair + 1]))
        np.subtract.at(loads, _classes(some, int(chosen[pair])), 1)
        np.add.at(loads, _classes(some, candidate), 1)
        chosen[pair] = candidate
