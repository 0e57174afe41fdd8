"""From a torus and its dead links to one path per pair: relax, round, and search down to the bound.

Measured on 2 cores: 8x8x8 with one OCS down takes some 7 s of CPU and ends at 547, which the LP bound of
546.13 (15/16 of the healthy throughput) proves optimal. To see it:

    railweave explain 0,0,0 1,0,0 --topology torus --shape 8x8x8 --router ilp --fault "down ocs:X:0,0"
"""

import time
from math import ceil

import numpy as np

from railweave.framework.errors import UnsupportedFabricError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import starts
from railweave.framework.routing.highs import highs, one_thread
from railweave.plugins.ilp.candidates import Candidates, candidates
from railweave.plugins.ilp.problem import Problem
from railweave.plugins.ilp.solution import BELOW, Solution

LIMIT_S = 60.0
"""Seconds for the exact model; then the best solution so far counts."""
MOST_PAIRS = 1 << 16
"""Sources that differ x destinations: what a linear program of a minute can hold."""

SHAKE = 1e-5
"""Upper end of the random costs that make the best split unique. Without them the interior point spreads
every pair over all its ties; with crossover instead, HiGHS 1.15 fails on some shapes."""
MOST_EXACT, NODES = 1000, 20_000
"""Candidates up to which a Boolean program is tried, and its nodes at most, for equal answers: it proves the
optimum of some healthy rings and tori of up to 12 GPUs, where the relaxation does not."""

STEEP = 2.0
"""Factor of a link's price for each unit more on it."""
HEAT, COOLING = 0.01, 20_000
"""Probability that a pair takes any candidate, not the cheapest, where no single move helps; and the pairs
tried after which it is half of that (simulated annealing)."""
ROUNDS, MOVES = 1000, 400_000
"""Rounds of the search, and pairs tried in all, at most: 10 s of CPU."""


def solve(problem: Problem, limit_s: float = LIMIT_S) -> Solution:
    """The paths with the least maximum load for all-to-all that the search reaches, in the canonical place of
    the fault.

    Maximum concurrent flow with Boolean paths: throughput is capacity over the maximum load. Source: Zu et
    al., NSDI'24 (offline optimiser). Ours: they solve the Boolean program; here its relaxation is solved, and
    rounded. Equal problems give equal answers where the solver ends within `limit_s`.

    Raises UnsupportedFabricError where the fault leaves too little symmetry for a program of this size.
    """
    n, rows, axes = problem.lattice.n_gpus, len(problem.representatives), len(problem.lattice.shape)
    if rows * (n - 1) > MOST_PAIRS:
        raise UnsupportedFabricError(
            f"router ilp: with {len(problem.fault)} links of this torus of {n} GPUs down, {rows} sources "
            f"differ, so {rows * (n - 1)} pairs would have to be chosen and {MOST_PAIRS} is the most. Faults "
            "that repeat, such as an OCS down, leave fewer. Use `--router wfr` here."
        )
    began, began_cpu = time.perf_counter(), time.process_time()
    some = candidates(problem)
    bound, share, complete = relaxed(some, limit_s)
    chosen = improved(some, rounded(some, share), ceil(bound - BELOW))
    if some.loads(chosen).max(initial=0) > ceil(bound - BELOW) and len(some.wild) <= MOST_EXACT:
        left_s = began + limit_s - time.perf_counter()
        exact, share, ended = relaxed(some, left_s, boolean=True)
        bound, complete = max(bound, exact), complete and ended
        chosen = min(chosen, rounded(some, share), key=lambda choice: int(some.loads(choice).max()))
    wild, vector = np.full((rows, n), -1, np.int64), np.zeros((axes, rows * n), np.int64)
    wild.flat[some.pair], vector[:, some.pair] = some.wild[chosen], some.vector[:, chosen]
    value, cpu_seconds = int(some.loads(chosen).max(initial=0)), time.process_time() - began_cpu
    seconds = time.perf_counter() - began
    return Solution(value, bound, seconds, cpu_seconds, complete, wild, vector.reshape(axes, rows, n))


def relaxed(some: Candidates, limit_s: float, *, boolean: bool = False) -> tuple[float, Float, bool]:
    """(bound, share, ended): the least maximum load when pairs may split over their candidates, a certificate
    for every choice; (C,) how much of each candidate is then used, 0 of all if the time was over before; and
    whether it was not.

    The bound is not taken from the solver but proved from its prices of links, so that neither its tolerance
    nor the random costs can make it too high; they cost it some 1e-5 of its value. `boolean`: no pair may
    split, and the bound is that of branch and bound.

    Columns: one per candidate, then the maximum load. Rows: the shares of each pair sum to 1; the shares over
    each class of links stay below the maximum load.
    """
    core = highs()
    n, pairs, classes = len(some.wild), len(some.pair), some.n_classes
    column = np.concatenate((np.repeat(np.arange(n), np.diff(some.hop_start)), np.full(classes, n)))
    row = np.concatenate((some.link_class, np.arange(classes)))
    entry, times = np.unique(row * (n + 1) + column, return_counts=True)
    row, column = np.divmod(entry, n + 1)
    lp = core.HighsLp()
    lp.num_col_, lp.num_row_ = n + 1, pairs + classes
    lp.col_cost_ = np.append(np.random.default_rng(0).random(n) * (0.0 if boolean else SHAKE), 1.0)
    lp.col_lower_ = np.zeros(n + 1)
    lp.col_upper_ = np.append(np.ones(n), core.kHighsInf)
    lp.row_lower_ = np.append(np.ones(pairs), np.full(classes, -core.kHighsInf))
    lp.row_upper_ = np.append(np.ones(pairs), np.zeros(classes))
    lp.a_matrix_.format_ = core.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.append(some.start[:-1], n + starts(np.bincount(row, minlength=classes)))
    lp.a_matrix_.index_ = np.append(np.arange(n), column)
    lp.a_matrix_.value_ = np.append(np.ones(n), np.where(column == n, -1, times))
    if boolean:
        lp.integrality_ = [core.HighsVarType.kInteger] * n + [core.HighsVarType.kContinuous]
    program = one_thread(core)
    program.setOptionValue("time_limit", max(float(limit_s), 0.0))
    program.setOptionValue("solver", "choose" if boolean else "ipm")
    program.setOptionValue("run_crossover", "off")
    program.setOptionValue("mip_max_nodes", NODES)
    program.passModel(lp)
    program.run()
    ended = program.getModelStatus() != core.HighsModelStatus.kTimeLimit
    solution = program.getSolution()
    share = np.array(solution.col_value)[:n] if solution.value_valid else np.zeros(n)
    if boolean:
        return max(float(program.getInfo().mip_dual_bound), 0.0), share, ended
    price = -np.array(solution.row_dual)[pairs:] if solution.dual_valid else np.ones(classes)
    return some.bound(np.maximum(price, 0.0)), share, ended


def rounded(some: Candidates, share: Float) -> Int64:
    """(P,): the candidate with the largest share of each pair, the first of equals. share: (C,)."""
    return np.lexsort((-np.round(share, 6), some.owner))[some.start[:-1]]


def improved(some: Candidates, chosen: Int64, goal: int) -> Int64:
    """(P,): a choice whose busiest link carries less, down to `goal` at best.

    Links have prices that grow steeply with their load. Round after round the pairs over links above the goal
    choose again, one after the other in random order: the cheapest candidate as loads are by then, or in rare
    cases any (from a fixed seed: equal problems give equal answers).
    """
    rng = np.random.default_rng(0)
    chosen, loads = chosen.copy(), some.loads(chosen)
    best, best_max = chosen.copy(), int(loads.max(initial=0))
    rounds = moves = 0
    while best_max > goal and rounds < ROUNDS and moves < MOVES:
        busy = np.asarray(loads > goal, np.float64)
        pairs = rng.permutation(np.flatnonzero(some.costs(busy)[chosen]))
        rounds, moves = rounds + 1, moves + len(pairs)
        for pair in pairs:
            first, paths = some.start[pair], some.paths(pair)
            np.subtract.at(loads, paths[chosen[pair] - first], 1)
            price = (STEEP ** (loads[paths] - float(best_max))).sum(axis=1)
            ties = rng.random(len(price))
            pick = (
                ties.argmin() if rng.random() < HEAT / (1 + moves / COOLING) else np.lexsort((ties, price))[0]
            )
            np.add.at(loads, paths[pick], 1)
            chosen[pair] = first + pick
        if loads.max() < best_max:
            best, best_max = chosen.copy(), int(loads.max())
    return best
