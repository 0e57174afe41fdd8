"""The linear program of the path choice, relaxed or with Boolean paths, by HiGHS."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from railweave.framework.errors import MachineError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import starts
from railweave.framework.routing.highs import highs, one_thread
from railweave.plugins.ilp.candidates import Candidates

BELOW = 1e-6
"""How far a bound may lie above a whole number and still allow that number: the solver's tolerance."""


def solver() -> ModuleType:
    """HiGHS. Raises MachineError naming the extra."""
    try:
        return highs()
    except ImportError as error:
        raise MachineError(
            f"router ilp needs HiGHS, which is not installed ({error}). `pip install 'railweave[ilp]'`, "
            "or use `--router wfr`, which needs no solver."
        ) from None


SHAKE = 1e-5
"""Upper end of the random costs that make the best split unique. Without them the interior point spreads
every pair over all its ties; with crossover instead, HiGHS 1.15 fails on some shapes."""

NODES = 20_000
"""Branch-and-bound nodes at most: with it, and time to spare, equal problems give equal answers."""


@dataclass(frozen=True)
class Answer:
    """`bound`: no choice loads its busiest link with less; `share` (C,): how much of each candidate is used,
    or None if the time was over before."""

    bound: float
    share: Float | None


def relaxed(some: Candidates, limit_s: float) -> Answer:
    """The least maximum load when pairs may split over their candidates: a certificate for every choice.

    The bound is not taken from the solver but proved from its prices of links, so that neither its tolerance
    nor the random costs can make it too high; they cost it some 1e-5 of its value.
    """
    program, n = _program(some, limit_s), len(some.wild)
    program.changeColsCost(n, np.arange(n, dtype=np.int32), np.random.default_rng(0).random(n) * SHAKE)
    program.setOptionValue("solver", "ipm")
    program.setOptionValue("run_crossover", "off")
    program.run()
    if program.getModelStatus() != solver().HighsModelStatus.kOptimal:
        return Answer(some.bound(np.ones(some.n_classes)), None)
    solution = program.getSolution()
    price = np.maximum(-np.array(solution.row_dual)[len(some.pair) :], 0.0)
    return Answer(some.bound(price), np.array(solution.col_value)[:n])


def exact(some: Candidates, chosen: Int64, limit_s: float) -> Answer:
    """The least maximum load when each pair takes one candidate; `chosen` (P,) is the start."""
    core = solver()
    program, n = _program(some, limit_s), len(some.wild)
    kinds = np.full(n, int(core.HighsVarType.kInteger), np.uint8)
    program.changeColsIntegrality(n, np.arange(n, dtype=np.int32), kinds)
    first = np.zeros(n + 1)
    first[chosen] = 1.0
    first[n] = some.loads(chosen).max()
    start = core.HighsSolution()
    start.col_value = first
    start.value_valid = True
    program.setSolution(start)
    program.setOptionValue("mip_max_nodes", NODES)
    program.setOptionValue("mip_abs_gap", 1 - 10 * BELOW)  # loads are whole numbers
    program.setOptionValue("mip_rel_gap", 0.0)
    program.run()
    information = program.getInfo()
    share = first[:n]
    if information.primal_solution_status == core.SolutionStatus.kSolutionStatusFeasible:
        share = np.array(program.getSolution().col_value)[:n]
    return Answer(max(float(information.mip_dual_bound), 0.0), share)


def _program(some: Candidates, limit_s: float) -> Any:
    """The solver with the relaxed program.

    Columns: one per candidate, then the maximum load. Rows: the shares of each pair sum to 1; the shares over
    each class of links stay below the maximum load.
    """
    core = solver()
    n, pairs, classes = len(some.wild), len(some.pair), some.n_classes
    crossing, times = np.unique(
        np.repeat(np.arange(n), np.diff(some.hop_start)) * classes + some.link_class, return_counts=True
    )
    column, link_class = np.divmod(crossing, classes)
    row = np.concatenate((some.owner, pairs + link_class, pairs + np.arange(classes)))
    of = np.concatenate((np.arange(n), column, np.full(classes, n)))
    value = np.concatenate((np.ones(n), times, -np.ones(classes)))
    order = np.lexsort((row, of))
    lp = core.HighsLp()
    lp.num_col_, lp.num_row_ = n + 1, pairs + classes
    lp.col_cost_ = np.concatenate((np.zeros(n), np.ones(1)))
    lp.col_lower_ = np.zeros(n + 1)
    lp.col_upper_ = np.concatenate((np.ones(n), np.full(1, core.kHighsInf)))
    lp.row_lower_ = np.concatenate((np.ones(pairs), np.full(classes, -core.kHighsInf)))
    lp.row_upper_ = np.concatenate((np.ones(pairs), np.zeros(classes)))
    lp.a_matrix_.format_ = core.MatrixFormat.kColwise
    lp.a_matrix_.start_ = starts(np.bincount(of, minlength=n + 1))
    lp.a_matrix_.index_ = row[order]
    lp.a_matrix_.value_ = value[order]
    program = one_thread(core)
    program.setOptionValue("time_limit", float(limit_s))
    program.passModel(lp)
    return program
