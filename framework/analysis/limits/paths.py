"""Traffic between given pairs of ranks: the least time of any routing, by prices of the links.

Give each link a price per bit. Every bit from s to t then costs at least the cheapest path from s to t, and
in T seconds the links can sell (rate x T + free) x price. So any prices bound T, and the best prices give the
least time of any routing: they are the dual of the maximum concurrent flow (Shahrokhi and Matula 1990). A cut
is the case in which its links cost 1 and all others 0.
"""

from math import inf

import numpy as np

from railweave.framework.analysis.limits.wires import CutBound, Wires
from railweave.framework.errors import MachineError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.highs import highs, one_thread

LARGEST_PROGRAM = 20_000
"""Variables of the linear program, sources x links: half a second."""
MOST_NODES = 300
"""Cheapest paths between all nodes take time cubic in their number; beyond it only cuts are evaluated."""
WORDS = "the cheapest paths of all pairs, over all links together"


def paths_bound(wires: Wires, demand: Float) -> CutBound:
    """The best bound by prices. demand: (n_ranks, n_ranks) bits, [src, dst].

    Always tried: every link 1, and the cables of one kind (an axis, the rails) 1. The best prices where the
    solver HiGHS (extra `ilp`) is installed and the program is small.
    """
    if wires.fabric.n_nodes > MOST_NODES:
        return CutBound(0.0, WORDS)
    prices = _plain_prices(wires)
    if (dual := _best_prices(wires, demand)) is not None:
        prices.append(dual)
    return CutBound(max(priced(wires, demand, price) for price in prices), WORDS)


def has_solver() -> bool:
    """Whether the best prices can be found."""
    try:
        highs()
    except MachineError:
        return False
    return True


def priced(wires: Wires, demand: Float, price: Float) -> float:
    """The lower bound in seconds that `price` (n_links,), 0 or more per bit on each link, gives for
    `demand`."""
    cost = _cheapest(wires, price)[np.ix_(wires.ranks, wires.ranks)]
    wanted = demand > 0
    if np.any(np.isinf(cost[wanted])):
        return inf
    bill = float((demand[wanted] * cost[wanted]).sum()) - float(wires.free @ price)
    sold = float(wires.rate @ price)
    return bill / sold if bill > 0 and sold > 0 else 0.0


def _cheapest(wires: Wires, price: Float) -> Float:
    """(n_nodes, n_nodes): the price of the cheapest path over live links (Floyd 1962, Warshall 1962)."""
    n = wires.fabric.n_nodes
    cost = np.full((n, n), inf)
    live = np.flatnonzero(wires.rate > 0)
    np.minimum.at(cost, (wires.src[live], wires.dst[live]), price[live])
    np.fill_diagonal(cost, 0.0)
    for by in range(n):
        np.minimum(cost, cost[:, by, None] + cost[by], out=cost)
    return cost


def _plain_prices(wires: Wires) -> list[Float]:
    """1 for every live link; then 1 for one kind of cable alone, a cable's kind being that of both
    directions."""
    kind: Int64 = np.asarray(wires.fabric.link_kind, np.int64)
    other = kind[np.arange(len(kind)) ^ 1]
    cable = np.minimum(kind, other) * (kind.max(initial=0) + 1) + np.maximum(kind, other)
    live = wires.rate > 0
    return [live.astype(np.float64)] + [(live & (cable == k)).astype(np.float64) for k in np.unique(cable)]


def _best_prices(wires: Wires, demand: Float) -> Float | None:
    """(n_links,): the prices with the largest bound; None without the solver, for large programs, or if it
    fails.

    The program: flows of each source over each live link and the time, the time least. Prices are the dual
    values of the links' rows.
    """
    links = np.flatnonzero(wires.rate > 0)
    sources = np.flatnonzero(demand.sum(axis=1) > 0)
    if len(sources) * len(links) > LARGEST_PROGRAM or not has_solver():
        return None
    core = highs()
    n, m, k = wires.fabric.n_nodes, len(links), len(sources)
    unit, fastest = float(demand.max()), float(wires.rate.max())
    must = np.zeros((k, n))
    must[:, wires.ranks] = demand[sources] / unit
    must[np.arange(k), wires.ranks[sources]] = -must.sum(axis=1)
    flow, link = np.repeat(np.arange(k), m), np.tile(np.arange(m), k)
    rows = np.stack(
        [flow * n + wires.dst[links[link]], flow * n + wires.src[links[link]], k * n + link], axis=1
    )
    program = core.HighsLp()
    program.num_col_, program.num_row_ = k * m + 1, k * n + m
    program.col_cost_ = np.append(np.zeros(k * m), 1.0)
    program.col_lower_ = np.zeros(k * m + 1)
    program.col_upper_ = np.full(k * m + 1, core.kHighsInf)
    program.row_lower_ = np.concatenate([must.ravel(), np.full(m, -core.kHighsInf)])
    program.row_upper_ = np.concatenate([must.ravel(), wires.free[links] / unit])
    program.a_matrix_.start_ = np.append(np.arange(0, 3 * k * m + 1, 3), 3 * k * m + m)
    program.a_matrix_.index_ = np.append(rows.ravel(), k * n + np.arange(m))
    program.a_matrix_.value_ = np.append(np.tile([1.0, -1.0, 1.0], k * m), -wires.rate[links] / fastest)
    solver = one_thread(core)
    solver.setOptionValue("solver", "ipm")
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != core.HighsModelStatus.kOptimal:
        return None
    price = np.zeros(wires.fabric.n_links)
    price[links] = np.maximum(0.0, -np.asarray(solver.getSolution().row_dual)[k * n :])
    return price
