"""Moves some pairs to new paths under a tag that no packet carries yet, and leaves the others as they are."""

from dataclasses import dataclass, replace

import numpy as np

from railweave.framework.model import Fabric, PathBatch, Rule, RuleUpdate
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import take
from railweave.framework.routing.compiler import (
    HOST_PORT,
    Flows,
    IngressKeys,
    ingress_keys,
    ingress_rules,
    transit_rules,
)
from railweave.framework.routing.entropy import CLASSES, path_classes
from railweave.framework.routing.installed import NO_TAG, Installed
from railweave.framework.routing.trie import ANY

PRIORITY_LIMIT = 60000
"""New ingress rules have priorities above all earlier ones; beyond this limit a NIC's rules are rewritten
below."""


def migrate(
    fabric: Fabric,
    old: Installed,
    batch: PathBatch,
    moved: Bool,
    tag: int,
    version: int,
    *,
    priority_limit: int = PRIORITY_LIMIT,
) -> tuple[Installed, RuleUpdate]:
    """The state and the update in which the pairs `moved` (P,) take their paths of `batch` under `tag`.

    The others have the same paths in `batch` as before. Packets of a moved pair with an entropy that only its
    old paths had take its new first path until the update is retired, so that a sender may learn late.
    """
    move = _Move(fabric, old, batch, moved, tag)
    positions = np.flatnonzero(moved)
    part = take(batch, positions)
    fresh, stale = Flows.of(move.classes[moved[batch.path_pair]]), move.stale
    local = np.full(len(moved), ANY)
    local[positions] = np.arange(len(positions))
    late = Flows(
        _first_paths(part, fresh.entropy)[local[stale.pair[stale.routed]]], stale.entropy[stale.routed]
    )
    flows = Flows(np.concatenate((fresh.path, late.path)), np.concatenate((fresh.entropy, late.entropy)))
    transit = transit_rules(fabric, part, flows, tag)
    transit_lasting = transit.key_flow < len(fresh.path)
    transit_pair = positions[part.path_pair[flows.path[transit.key_flow]]]

    keys, lasting = move.ingress()
    tight = old.top > priority_limit
    keys = replace(keys, free=keys.free & (~tight[keys.nic] | move.at_base[keys.pair]))
    ingress = ingress_rules(fabric, keys, old.top)
    rules, detour = _lowered(old, ingress.rules, tight)

    # A pair keeps its ingress rules, unless new ones serve every packet it sends.
    rebound = np.zeros(len(moved), bool)
    rebound[keys.pair] = True
    rebound[keys.pair[ingress.key_rule == ANY]] = False
    keep = ~np.where(old.is_ingress[old.use_rule], rebound[old.use_pair], moved[old.use_pair])
    n_old, n_transit = len(old.rules), len(transit.rules)
    served = lasting & (ingress.key_rule != ANY)
    use_rule = np.concatenate(
        (
            old.use_rule[keep],
            n_old + transit.key_rule[transit_lasting],
            n_old + n_transit + ingress.key_rule[served],
        )
    )
    use_pair = np.concatenate((old.use_pair[keep], transit_pair[transit_lasting], keys.pair[served]))
    everything = (*old.rules, *transit.rules, *rules)
    stays = np.zeros(len(everything), bool)
    stays[: fabric.n_gpus] = True
    stays[use_rule] = True
    number = np.cumsum(stays) - 1
    uses = np.unique(use_rule * len(moved) + use_pair)
    use_rule, use_pair = np.divmod(uses, len(moved))

    top = old.top.copy()
    top[[rule.switch for rule in detour]] = 0
    for rule in rules:
        top[rule.switch] = max(top[rule.switch], rule.priority)
    state = Installed(
        version,
        move.tags,
        batch,
        move.classes,
        tuple(rule for rule, stay in zip(everything, stays, strict=True) if stay),
        number[use_rule],
        use_pair,
        top,
        tag,
        old.fresh,
    )
    gone = tuple(rule for rule, stay in zip(everything, stays, strict=True) if not stay)
    return state, RuleUpdate(version, transit.rules, (*detour, *rules), (*gone, *reversed(detour)))


@dataclass(frozen=True, eq=False)
class _Stale:
    """Entropy classes of moved pairs that only their old paths had: `pair` (S,), `entropy` (S,); `routed`
    (S,): whether the pair has a path now."""

    pair: Int64
    entropy: Int64
    routed: Bool


class _Move:
    """What each pair has after the move."""

    def __init__(self, fabric: Fabric, old: Installed, batch: PathBatch, moved: Bool, tag: int) -> None:
        self._fabric, self._old, self._batch, self._moved = fabric, old, batch, moved
        has = np.diff(batch.pair_start) > 0
        self.tags = np.where(has, np.where(moved, tag, old.tag), NO_TAG)
        new_path, old_path = moved[batch.path_pair], moved[old.batch.path_pair]
        self.classes = np.empty(len(new_path), np.int64)
        self.classes[new_path] = path_classes(fabric, take(batch, np.flatnonzero(moved)))
        self.classes[~new_path] = old.classes[~old_path]
        before = old.batch.path_pair[old_path] * CLASSES + old.classes[old_path]
        after = batch.path_pair[new_path] * CLASSES + self.classes[new_path]
        pair, entropy = np.divmod(np.setdiff1d(before, after), CLASSES)
        some = has[pair] | (entropy > 0)  # class 0 of an unreachable pair has its key anyway
        self.stale = _Stale(pair[some], entropy[some], has[pair[some]])
        self.at_base = np.zeros(len(moved), bool)
        self.at_base[old.use_pair[old.use_rule < fabric.n_gpus]] = True

    def ingress(self) -> tuple[IngressKeys, Bool]:
        """The keys of every NIC where a pair moves, and (K,) which of them will last beyond the update."""
        batch, stale = self._batch, self.stale
        touched = np.zeros(self._fabric.n_gpus, bool)
        touched[batch.src[self._moved]] = True
        positions = np.flatnonzero(touched[batch.src])
        part = take(batch, positions)
        local = np.full(len(batch.src), ANY)
        local[positions] = np.arange(len(positions))
        fresh = Flows.of(self.classes[touched[batch.src[batch.path_pair]]])
        late = _first_paths(part, fresh.entropy)[local[stale.pair[stale.routed]]]
        flows = Flows(
            np.concatenate((fresh.path, late)),
            np.concatenate((fresh.entropy, stale.entropy[stale.routed])),
        )
        keys = ingress_keys(self._fabric, part, flows, self.tags[positions])
        lasting = np.ones(len(keys.nic), bool)
        lasting[len(fresh.path) : len(flows.path)] = False
        pair, entropy = stale.pair[~stale.routed], stale.entropy[~stale.routed]
        none = np.zeros(len(pair), np.int64)
        keys_pair = positions[keys.pair]
        free = np.where(self._moved[keys_pair], keys.free & self.at_base[keys_pair], True)
        return IngressKeys(
            np.concatenate((keys.nic, batch.src[pair])),
            np.concatenate((keys.dst, batch.dst[pair])),
            np.concatenate((keys.entropy, entropy)),
            np.concatenate((keys.tag, none)),
            np.concatenate((keys.port, none)),
            np.concatenate((free, none > 0)),
            np.concatenate((keys_pair, pair)),
        ), np.concatenate((lasting, none > 0))


def _first_paths(batch: PathBatch, classes: Int64) -> Int64:
    """(P,): each pair's path of class 0; ANY for a pair without a path."""
    first = np.full(len(batch.src), ANY)
    zero = np.flatnonzero(classes == 0)
    first[batch.path_pair[zero]] = zero
    return first


def _lowered(
    old: Installed, rules: tuple[Rule, ...], tight: Bool
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The ingress rules to keep, and copies that go before them and are removed at the end, from the top
    down.

    Where a NIC's priorities run out its new rules serve every packet of its host, so that they fit in any gap
    further down as long as the copies above all others are installed: the copies take over one by one, the
    old rules are removed, and then the copies from the lowest up, each leaving its packets to its twin below.
    """
    detour = tuple(rule for rule in rules if tight[rule.switch])
    if not detour:
        return rules, ()
    shift: dict[int, int] = {}
    for nic in sorted({rule.switch for rule in detour}):
        taken = {r.priority for r in old.rules if r.switch == nic and r.match.in_port == HOST_PORT}
        used = {rule.priority for rule in detour if rule.switch == nic}
        span, taken = range(max(used) - min(used) + 1), taken | used
        start = min(taken) + 1
        while any(start + i in taken for i in span):
            start += 1
        shift[nic] = min(used) - start
    kept = tuple(replace(rule, priority=rule.priority - shift.get(rule.switch, 0)) for rule in rules)
    return kept, detour
