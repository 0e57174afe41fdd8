"""From a fractional answer to one path per pair, and from there downhill."""

import numpy as np

from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import spread
from railweave.plugins.ilp.candidates import Candidates

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
