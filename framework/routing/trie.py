"""The shortest rule list for packet fields in a given order.

The keys become a trie, in which a rule is a node: the fields down to it must match, those below are any, and
the deeper rule counts. The shortest list is computed as for routing tables (Draves, King, Venkatachary and
Zill, "Constructing optimal IP routing tables", INFOCOM 1999), with fan-out by value, keys that never occur
left out, and keys that need no rule. All switches are worked on at once, each a root of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import distinct

ANY = -1
"""In a rule: this field is not matched. Among costs and rule numbers: none."""

NEVER, BARRED = 1 << 40, 1 << 30
"""Costs of what cannot be: of a switch, and of one of its keys, which may be millions."""


@dataclass(frozen=True, eq=False)
class Keys:
    """The required forwarding: K keys of K switches' packets.

    `fields`: F arrays (K,), values of the fields that rules may match. `entropy` (K,): a class of the UDP
    source port; class 0 is every port without a class of its own, so rules reach it only by not matching the
    port. `action` (K,). `free` (K,): keys that rules of lower priority already serve rightly; a new rule need
    not match them. `barred` (K,): those of them that no rule may match; None for none.
    """

    switch: Int64
    fields: tuple[Int64, ...]
    entropy: Int64
    action: Int64
    free: Bool
    barred: Bool | None = None

    def at(self, keys: NDArray[np.integer] | Bool) -> Self:
        """The keys at these positions."""
        fields = tuple(f[keys] for f in self.fields)
        barred = None if self.barred is None else self.barred[keys]
        return type(self)(
            self.switch[keys], fields, self.entropy[keys], self.action[keys], self.free[keys], barred
        )


@dataclass(frozen=True, eq=False)
class RuleList:
    """R rules: `fields` (R, F) and `entropy` (R,) hold a value or ANY; of the rules that match, the one of
    the highest `level` counts. Rules of one level on one switch never overlap. `key_rule` (K,): the rule that
    serves each key, or ANY for free keys left to what lies below."""

    switch: Int64
    level: Int64
    fields: Int64
    entropy: Int64
    action: Int64
    key_rule: Int64


def pack(columns: Sequence[NDArray[np.generic]]) -> Int64:
    """One whole number per row, in the rows' lexicographic order."""
    packed = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        values = column.astype(np.int64)
        width = int(values.max(initial=0)) + 1
        if size * width >= 1 << 62:
            present, packed = np.unique(packed, return_inverse=True)
            size = len(present)
        packed, size = packed * width + values, size * width
    return packed


@dataclass(eq=False)
class _TrieLevel:
    """The nodes of one depth. `first`: a key of each; `parent`: its node one depth up; `silent`: whether the
    node does best without a default where nothing above it has one; `good`: its best defaults, as node *
    n_actions + action, ascending; `open_cost`, `own_cost`: rules of its subtree without and with a default of
    its own."""

    first: Int64
    parent: Int64
    open_cost: Int64 = field(init=False)
    own_cost: Int64 = field(init=False)
    silent: Bool = field(init=False)
    good: Int64 = field(init=False)


class Trie:
    """The keys in one order of the fields. `place`: the entropy is the first field, the last, or none."""

    def __init__(self, keys: Keys, order: tuple[int, ...], place: str) -> None:
        head = [keys.switch, keys.entropy] if place == "first" else [keys.switch]
        columns = [keys.fields[f] for f in order] + ([keys.entropy] if place == "last" else [])
        self.keys, self.order, self.place = keys, order, place
        self.sorted = np.argsort(pack([*head, *columns]))
        self.n_actions = int(keys.action.max(initial=0)) + 1
        begins = np.zeros(len(keys.switch), bool)
        begins[:1] = True
        self.levels: list[_TrieLevel] = []
        above = np.zeros(len(begins), np.int64)
        for depth in range(len(columns) + 1):
            for column in head if depth == 0 else columns[depth - 1 : depth]:
                values = column[self.sorted]
                begins[1:] |= values[1:] != values[:-1]
            first = np.flatnonzero(begins)
            self.levels.append(_TrieLevel(self.sorted[first], above[first]))
            above = np.cumsum(begins) - 1
        self.leaf = above
        self._count(np.flatnonzero(begins))

    def _count(self, first: Int64) -> None:
        """The costs of all nodes, from the leaves up. `first`: where each leaf begins among the sorted
        keys."""
        keys, leaves = self.keys, self.levels[-1]
        action = keys.action[leaves.first]
        clash = action[self.leaf] != keys.action[self.sorted]
        self.clash = distinct(keys.switch[self.sorted[clash]])
        free = np.logical_and.reduceat(keys.free[self.sorted], first) if len(first) else keys.free
        if self.place == "first":
            # Rules of class 0 also catch the classes, so that these cannot rely on what lies below.
            free = free & (keys.entropy[leaves.first] == 0)
        leaves.silent, leaves.open_cost = free, (~free).astype(np.int64)
        leaves.own_cost = np.ones(len(action), np.int64)
        if keys.barred is not None:
            leaves.own_cost[keys.barred[leaves.first]] = BARRED
        leaves.good = np.arange(len(action)) * self.n_actions + action
        for depth in range(len(self.levels) - 1, 0, -1):
            last = depth == len(self.levels) - 1 and self.place == "last"
            self._fold(self.levels[depth], self.levels[depth - 1], by_entropy=last)

    def _fold(self, below: _TrieLevel, above: _TrieLevel, *, by_entropy: bool) -> None:
        """Costs of the nodes one depth up. A default saves one rule in each child whose best defaults hold
        it."""
        n = len(above.first)
        node, action = np.divmod(below.good, self.n_actions)
        good = below.parent[node] * self.n_actions + action
        served = np.zeros(n, bool)
        if by_entropy:
            # Class 0 has no rule of its own: the default above it is its rule, so that no other will do.
            bare = self.keys.entropy[below.first] == 0
            forced = np.zeros(n, bool)
            forced[below.parent[bare]] = True
            will_do = np.zeros(n * self.n_actions, bool)
            will_do[good[bare[node] | ~forced[below.parent[node]]]] = True
            good = good[will_do[good]]
            served[below.parent[bare & ~below.silent]] = True
        wanted, count = np.unique(good, return_counts=True)
        owner = wanted // self.n_actions
        begin = np.searchsorted(owner, np.arange(n))
        most = np.maximum.reduceat(count, begin) if n else count
        above.good = wanted[count == most[owner]]
        own_sum = np.bincount(below.parent, below.own_cost, n).astype(np.int64)
        above.own_cost = 1 + own_sum - most
        open_sum = np.bincount(below.parent, below.open_cost, n).astype(np.int64)
        above.silent = (open_sum <= above.own_cost) & ~served
        above.open_cost = np.where(above.silent, open_sum, above.own_cost)

    def costs(self, n_switches: int) -> Int64:
        """(n_switches,): rules each switch needs in this order; NEVER where it cannot distinguish the keys,
        or has no keys here."""
        root = self.levels[0]
        switch = self.keys.switch[root.first]
        total = np.bincount(switch, root.open_cost, n_switches).astype(np.int64)
        total[np.bincount(switch, minlength=n_switches) == 0] = NEVER
        total[self.clash] = NEVER
        return total

    def total(self) -> int:
        """Rules of all switches together, as if no keys had to be distinguished further."""
        return int(self.levels[0].open_cost.sum())

    def rules(self) -> RuleList:
        """The rules, from the root down; a node takes a default of its own unless the one above will do."""
        rule = np.full(1, ANY)
        inherited = np.full(1, ANY)
        parts: list[tuple[Int64, Int64, Int64, Int64, Int64]] = []
        n_rules = 0
        for depth, level in enumerate(self.levels):
            rule, inherited = rule[level.parent], inherited[level.parent]
            fits = np.isin(np.arange(len(inherited)) * self.n_actions + inherited, level.good)
            with_default = np.flatnonzero(np.where(inherited == ANY, ~level.silent, ~fits))
            begin = np.searchsorted(level.good, with_default * self.n_actions)
            inherited[with_default] = level.good[begin] % self.n_actions
            rule[with_default] = n_rules + np.arange(len(with_default))
            n_rules += len(with_default)
            parts.append(self._emit(depth, level.first[with_default], inherited[with_default]))
        key_rule = np.empty(len(self.leaf), np.int64)
        key_rule[self.sorted] = rule[self.leaf]
        switch, depth_, fields, entropy, action = (np.concatenate(c) for c in zip(*parts, strict=True))
        return RuleList(switch, depth_, fields, entropy, action, key_rule)

    def _emit(self, depth: int, first: Int64, action: Int64) -> tuple[Int64, Int64, Int64, Int64, Int64]:
        """Switch, level, fields, entropy and action of the rules that nodes of one depth make."""
        entropy = self.keys.entropy[first]
        exact = entropy > 0 if self.place == "first" or depth > len(self.order) else entropy < 0
        fields = np.full((len(first), len(self.keys.fields)), ANY)
        for column in self.order[:depth]:
            fields[:, column] = self.keys.fields[column][first]
        level = depth + (exact * len(self.levels) if self.place == "first" else 0)
        level = np.broadcast_to(level, len(first)).astype(np.int64)
        return self.keys.switch[first], level, fields, np.where(exact, entropy, ANY), action
