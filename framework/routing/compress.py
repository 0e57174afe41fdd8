"""From a function on packet fields to a short list of prioritised rules.

Per switch many orders of the fields are tried, each solved at its best by a trie, also after one value of a
field was split off into a list of its own above the others (what a switch does with packets for its own
domain often has nothing in common with what it does with the rest), or the destinations that are served
alike whatever the entropy (those below a switch, where all others go up, a path each). The shortest list is
kept. With this split a switch of a Clos network needs at most a rule for each destination and path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import distinct
from railweave.framework.routing.trie import ANY, NEVER, Keys, RuleList, Trie, pack

NEAREST = 6
"""How many orders of each length are tried again with the extra fields."""


def compress(keys: Keys, orders: Sequence[tuple[int, ...]], extra: Sequence[int] = ()) -> RuleList:
    """The shortest rule list per switch, by switch and from the highest level down.

    `orders`: the orders of fields to try. On switches where none of them distinguishes all keys, the fields
    `extra` are added before or behind the orders that came nearest, so that they appear only where they are
    needed. Raises RouteError where that is not enough either.
    """
    unsplit = _OrderSearch(keys, orders, extra)
    unsolved = np.flatnonzero(unsplit.present & (unsplit.cost >= NEVER))
    if unsolved.size:
        raise RouteError(
            f"switch {unsolved[0]}: two packets with equal addresses, port and entropy must leave by "
            "different ports. A path meets a node twice, or two paths of a pair share an entropy."
        )
    cost, best = unsplit.cost.copy(), np.zeros(len(unsplit.cost), np.int64)
    splits: list[tuple[Int64, int, Bool, _OrderSearch]] = []
    fields = {f for order in orders for f in order}
    for field in sorted(fields):
        value = _odd_values(unsplit.near.keys, field, sorted(fields - {field}))
        value[cost <= unsplit.bound] = ANY
        at = np.flatnonzero(value[keys.switch] != ANY)
        some = keys.at(at)
        odd = some.fields[field] == value[some.switch]
        # Keys split off must all be matched there: the rules below are made without them.
        halves = replace(some, switch=2 * some.switch + odd, free=some.free & ~odd)
        search = _OrderSearch(halves, orders, extra)
        halves_cost = np.zeros(2 * len(cost), np.int64)
        halves_cost[: len(search.cost)] = np.where(search.present, search.cost, 0)
        total = halves_cost[0::2] + halves_cost[1::2]
        better = (total < cost) & (value != ANY)
        splits.append((at, field, odd, search))
        cost[better], best[better] = total[better], len(splits)
    below = _Below.of(keys, orders, extra, unsplit.cost > unsplit.bound)
    better = below.cost < cost
    cost[better], best[better] = below.cost[better], ANY
    parts = [(np.arange(len(keys.switch)), unsplit.rules(best == 0)), *below.rules(better)]
    for i, (at, field, odd, search) in enumerate(splits, 1):
        if (best == i).any():
            parts.append((at, _rejoined(search, field, odd, np.repeat(best == i, 2))))
    return _merged(len(keys.switch), parts)


@dataclass(frozen=True, eq=False)
class _Below:
    """The lists of switches that serve some destinations alike, whatever else a packet has, and others not:
    rules of these destinations alone above those of the others. `cost` (n_switches,), NEVER where that does
    not apply; `at` (M,): the keys of those where it does, `rest` those of other destinations."""

    cost: Int64
    at: Int64
    rest: Int64
    upper: "_OrderSearch | None" = None
    lower: "_OrderSearch | None" = None

    @classmethod
    def of(cls, keys: Keys, orders: Sequence[tuple[int, ...]], extra: Sequence[int], wanted: Bool) -> Self:
        """Of the switches `wanted` (n_switches,) that look at the entropy."""
        none, cost = np.empty(0, np.int64), np.full(len(wanted), NEVER)
        varied = np.zeros(len(wanted), bool)
        varied[keys.switch[keys.entropy > 0]] = True
        some = np.flatnonzero((wanted & varied)[keys.switch])
        common = sorted(set[int](orders[0]).intersection(*orders)) if orders else []
        if not len(some) or not common:
            return cls(cost, none, none)
        some_keys = keys.at(some)
        _, context = np.unique(
            pack([some_keys.switch, *(some_keys.fields[f] for f in common)]), return_inverse=True
        )
        n_contexts = int(context.max()) + 1
        least, most = np.full(n_contexts, NEVER), np.zeros(n_contexts, np.int64)
        np.minimum.at(least, context, some_keys.action)
        np.maximum.at(most, context, some_keys.action)
        alike = (least == most)[context]
        both = np.zeros((2, len(wanted)), bool)
        both[alike.astype(int), some_keys.switch] = True
        chosen = (both[0] & both[1])[some_keys.switch]
        at, alike, some_keys = some[chosen], alike[chosen], some_keys.at(chosen)
        if not len(at):
            return cls(cost, none, none)
        first = replace(
            some_keys, entropy=np.zeros(len(at), np.int64), action=np.where(alike, some_keys.action, 0),
            free=~alike, barred=~alike,
        )  # fmt: skip
        upper = _OrderSearch(first, [order for order in orders if len(order) == len(common)], ())
        lower = _OrderSearch(some_keys.at(~alike), orders, extra)
        cost[: len(upper.cost)] = np.where(upper.present, upper.cost, NEVER)
        cost[: len(lower.cost)] += lower.cost
        return cls(cost, at, at[~alike], upper, lower)

    def rules(self, wanted: Bool) -> list[tuple[Int64, RuleList]]:
        """Those of the switches `wanted`, as `_merged` takes them."""
        if self.upper is None or self.lower is None or not wanted.any():
            return []
        above, below = self.upper.rules(wanted), self.lower.rules(wanted)
        return [
            (self.at, replace(above, level=above.level + int(below.level.max(initial=0)) + 1)),
            (self.rest, below),
        ]


def _odd_values(keys: Keys, field: int, others: Sequence[int]) -> Int64:
    """(n_switches,): the value of a field with the most keys that disagree with what most keys do that differ
    from them in this field alone; ANY where all agree."""
    n_switches = int(keys.switch.max(initial=-1)) + 1
    context = pack([keys.switch, *(keys.fields[f] for f in others), keys.entropy])
    _, context = np.unique(context, return_inverse=True)
    n_actions = int(keys.action.max(initial=0)) + 1
    voted, vote, count = np.unique(context * n_actions + keys.action, return_inverse=True, return_counts=True)
    begin = np.searchsorted(voted // n_actions, np.arange(int(context.max(initial=-1)) + 1))
    most = np.maximum.reduceat(count, begin) if len(begin) else count
    odd = count[vote] < most[context]
    width = int(keys.fields[field].max(initial=0)) + 1
    disagree = (keys.switch * width + keys.fields[field])[odd]
    against = np.bincount(disagree, minlength=n_switches * width).reshape(n_switches, width)
    return np.where(against.any(axis=1), against.argmax(axis=1), ANY) if n_switches else np.empty(0, np.int64)


def _rejoined(search: "_OrderSearch", field: int, odd: Bool, wanted: Bool) -> RuleList:
    """The rules of split switches `wanted`: those of the keys split off match their value and have higher
    levels."""
    part = search.rules(wanted)
    above = part.switch % 2 == 1
    value = np.full(len(wanted) // 2, ANY)
    value[search.keys.switch[odd] // 2] = search.keys.fields[field][odd]
    fields = part.fields.copy()
    fields[above, field] = value[part.switch[above] // 2]
    level = part.level + above * (int(part.level.max(initial=0)) + 1)
    return replace(part, switch=part.switch // 2, fields=fields, level=level)


def _merged(n_keys: int, parts: Sequence[tuple[Int64, RuleList]]) -> RuleList:
    """The rules of all parts by switch and from the highest level down; `parts`: which keys, and their
    rules."""
    key_rule = np.full(n_keys, ANY)
    before = 0
    for at, part in parts:
        served = part.key_rule != ANY
        key_rule[at[served]] = part.key_rule[served] + before
        before += len(part.switch)
    switch, level, fields, entropy, action = (
        np.concatenate([getattr(part, name) for _, part in parts])
        for name in ("switch", "level", "fields", "entropy", "action")
    )
    order = np.argsort(
        pack([switch, level.max(initial=0) - level, *(fields.T + 1), entropy + 1]), kind="stable"
    )
    rank = np.empty(before, np.int64)
    rank[order] = np.arange(before)
    key_rule[key_rule != ANY] = rank[key_rule[key_rule != ANY]]
    return RuleList(switch[order], level[order], fields[order], entropy[order], action[order], key_rule)


@dataclass(frozen=True, eq=False)
class _Reduced:
    """Distinct keys, with some fields only; `inverse` says which of them each key of `key_numbers` is."""

    keys: Keys
    key_numbers: Int64
    inverse: Int64


class _OrderSearch:
    """The cheapest order for every switch. `cost`, `bound` (n_switches,): its rules, and how many it needs at
    the least, one for each action; `present`: whether it has keys. `near`: the keys without the extra
    fields."""

    def __init__(self, keys: Keys, orders: Sequence[tuple[int, ...]], extra: Sequence[int]) -> None:
        n_switches = int(keys.switch.max(initial=-1)) + 1
        self.keys = keys
        self.present = np.bincount(keys.switch, minlength=n_switches) > 0
        self.cost = np.full(n_switches, NEVER)
        self._best = np.full(n_switches, ANY)
        self._tried: list[tuple[_Reduced, tuple[int, ...], str]] = []
        needed = np.flatnonzero(~keys.free)
        width = int(keys.action.max(initial=0)) + 1
        actions = distinct(keys.switch[needed] * width + keys.action[needed])
        self.bound = np.bincount(actions // width, minlength=n_switches)
        self.near = self._reduce(np.ones(len(keys.switch), bool), orders)
        ranked = self._run(self.near, orders)
        pending = self.present & (self.cost >= NEVER)
        if pending.any() and extra:
            near = [
                o
                for size in {len(o) for o in orders}
                for o in [r for r in ranked if len(r) == size][:NEAREST]
            ]
            both_orders = sorted({tuple(extra), tuple(reversed(extra))})
            wider = [order for n in near for e in both_orders for order in ((*n, *e), (*e, *n))]
            self._run(self._reduce(pending[keys.switch], wider), wider)

    def _run(self, reduced: _Reduced, orders: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Try orders on some keys; returns them by their rules on all of these, fewest first."""
        keys = reduced.keys
        ranking: list[tuple[int, tuple[int, ...]]] = []
        for order in orders:
            total = NEVER
            for place in ("last", "first") if keys.entropy.any() else ("none",):
                trie = Trie(keys, order, place)
                costs = trie.costs(len(self.cost))
                total = min(total, trie.total())
                better = costs < self.cost
                self.cost[better], self._best[better] = costs[better], len(self._tried)
                self._tried.append((reduced, order, place))
            ranking.append((total, order))
            unsettled = (self.cost > self.bound)[keys.switch]
            if not unsettled.all():
                keys = keys.at(unsettled)
            if not len(keys.switch):
                break
        return [order for _, order in sorted(ranking)]

    def _reduce(self, chosen: Bool, orders: Sequence[tuple[int, ...]]) -> _Reduced:
        key_numbers = np.flatnonzero(chosen)
        some = self.keys.at(key_numbers)
        used = [some.fields[f] for f in sorted({f for order in orders for f in order})]
        barred = [] if some.barred is None else [some.barred]
        columns = [some.switch, *used, some.entropy, some.action, some.free, *barred]
        _, first, inverse = np.unique(pack(columns), return_index=True, return_inverse=True)
        return _Reduced(some.at(first), key_numbers, inverse)

    def rules(self, wanted: Bool) -> RuleList:
        """The rules of the switches `wanted` (n_switches or more,), each in the order that is best for it."""
        none = np.empty(0, np.int64)
        fields = np.empty((0, len(self.keys.fields)), np.int64)
        parts = [(none, RuleList(none, none, fields, none, none, none))]  # there may be no others
        for i, (reduced, order, place) in enumerate(self._tried):
            mine = wanted[: len(self.cost)] & (self._best == i)
            if mine.any():
                chosen = np.flatnonzero(mine[reduced.keys.switch])
                part = Trie(reduced.keys.at(chosen), order, place).rules()
                local = np.full(len(reduced.keys.switch), ANY)
                local[chosen] = part.key_rule
                parts.append((reduced.key_numbers, replace(part, key_rule=local[reduced.inverse])))
        return _merged(len(self.keys.switch), parts)
