"""From one route table to the next without losing a packet or sending one by two tables.

Per-packet consistency by version tags in two phases (Reitblatt, Foster, Rexford, Schlesinger and Walker,
"Abstractions for network update", SIGCOMM 2012), but for the changed pairs only: their transit rules are
installed under a tag that no packet carries, then their ingress rules switch them over, and rules that no
pair uses any more are removed once the packets in flight have drained. Updates are retired in order, each at
the latest GUARD updates on.
"""

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from railweave.framework.model import EntropyTable, Fabric, PathBatch, Rule, RuleUpdate
from railweave.framework.model.arrays import ArrayNoun, Bool, Int64
from railweave.framework.model.routes import MOST_PATHS
from railweave.framework.routing.batches import distinct, take, unreachable
from railweave.framework.routing.compiler import (
    HOST_PORT,
    INGRESS_PRIORITY,
    FlowClasses,
    base_rules,
    compile_batch,
    ingress_rules,
    transit_rules,
)
from railweave.framework.routing.entropy import entropy_table, path_classes
from railweave.framework.routing.trie import ANY

NO_TAG = -1
"""Version tag of a pair without a path."""

TAGS = 62
"""Version tags 1..62 are assigned in turn. 0 is that of the first table, 63 that of probe trains."""

GUARD = 8
"""How many of the next tags are kept free of pairs, so that the rules of as many updates may linger."""

BLOAT = 1.5
"""How many times the rules of a fresh compile may be in place before all pairs are compiled afresh."""

PRIORITY_LIMIT = 60000
"""New ingress rules have priorities above all earlier ones; beyond this limit a NIC's rules are rewritten
below."""


@dataclass(frozen=True, eq=False)
class Installed(ArrayNoun):
    """The rules in place once the last update is retired, and which ordered pair uses which of them.

    P pairs, those of `batch`. `tag` (P,): version tag of each, NO_TAG without a path. `batch`: their
    paths; `classes` (Q,): the entropy class of each path. `rules`: the GPUs' base rules first. `use_rule`,
    `use_pair` (U,): rule use_rule[i] serves pair use_pair[i]. `top` (n_gpus,): the highest priority that an
    ingress rule ever had there. `last_tag`: the tag assigned last.
    `fresh`: how many rules the last compile of all pairs at once came to; `bloated`: whether the present
    routes need far fewer than there are (`counted`).
    """

    version: int
    tag: Int64
    batch: PathBatch
    classes: Int64
    rules: tuple[Rule, ...]
    use_rule: Int64
    use_pair: Int64
    top: Int64
    last_tag: int
    fresh: int
    bloated: bool = False

    @property
    def unreachable(self) -> Int64:
        """(M, 2): the pairs [src, dst] that have no path; their packets are dropped where they enter."""
        return unreachable(self.batch)


def initial(fabric: Fabric, batch: PathBatch, version: int = 0) -> tuple[Installed, EntropyTable]:
    """The first state, with all its rules, for the pairs of `batch`, and what senders need; every pair has
    tag 0."""
    n, none = len(batch.src), np.empty(0, np.int64)
    no_paths = PathBatch.in_row(
        batch.src, batch.dst, np.zeros(n + 1, np.int64), np.empty(0, np.int32), reachable=np.zeros(n, bool)
    )
    # Every pair unreachable: only the base rules, which drop what hosts send.
    nothing = Installed(
        0,
        np.full(n, NO_TAG),
        no_paths,
        none,
        tuple(base_rules(fabric)),
        batch.src,
        np.arange(n),
        np.full(fabric.n_gpus, INGRESS_PRIORITY),
        NO_TAG,
        fabric.n_gpus,
    )
    state, _ = migrate(fabric, nothing, batch, np.ones(n, bool), 0, version)
    return replace(state, fresh=len(state.rules)), entropy_table(fabric, version, batch, state.classes)


def unruled(batch: PathBatch, version: int = 0) -> tuple[Installed, EntropyTable]:
    """The state where no switch needs rules, and no sender an entropy: the paths alone."""
    none, zero = np.empty(0, np.int64), np.zeros(1, np.int64)
    entropies = EntropyTable(version, none, none, zero, none, *np.empty((4, 0)))
    return Installed(version, none, batch, none, (), none, none, none, NO_TAG, 0), entropies


def plan(
    fabric: Fabric, installed: Installed, batch: PathBatch, changed: Bool, version: int
) -> tuple[Installed, RuleUpdate, EntropyTable]:
    """The state after the update to the paths of `batch`, the update, and what senders need once it is
    applied.

    `changed` (P,): the pairs whose paths differ from the installed ones; pairs without a path are in the
    state's `unreachable`. Unchanged pairs keep their rules, but for two cases: those whose tag is next in
    turn but GUARD move along to the new tag; and if the rules are bloated, all pairs do.
    """
    if not changed.any():
        state, update = replace(installed, version=version, batch=batch), RuleUpdate(version, (), (), ())
        return state, update, entropy_table(fabric, version, batch, state.classes)
    tag = _after(installed.last_tag, 1)
    moved = changed | (installed.tag == _after(tag, GUARD)) | installed.bloated
    state, update = migrate(fabric, installed, batch, moved, tag, version)
    if moved.all():
        state = replace(state, fresh=len(state.rules))
    return state, update, entropy_table(fabric, version, batch, state.classes)


def counted(fabric: Fabric, installed: Installed) -> Installed:
    """The state with `fresh` and `bloated` of its present routes, if its rules are more than BLOAT times
    those of the last count. That compiles all pairs and takes longer than an update: for when none waits."""
    if installed.bloated or len(installed.rules) <= BLOAT * installed.fresh:
        return installed
    fresh = len(compile_batch(fabric, installed.batch))
    return replace(installed, fresh=fresh, bloated=len(installed.rules) > BLOAT * fresh)


def _after(tag: int, steps: int) -> int:
    """The tag that many steps on in the cycle 1..TAGS."""
    return (tag + steps - 1) % TAGS + 1


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
    move = _RouteMove(fabric, old, batch, moved)
    has = np.diff(batch.pair_start) > 0
    tags = np.where(has, np.where(moved, tag, old.tag), NO_TAG)
    positions, part, flows, lasting = move.flows(moved)
    transit = transit_rules(fabric, part, flows, tag)
    transit_lasting = lasting[transit.key_flow]
    transit_pair = positions[flows.pair[transit.key_flow]]

    # All pairs of a NIC where one moves have keys; those that stay are free: they need no new rule.
    touched = _marked(fabric.n_gpus, batch.src[moved])
    positions, part, flows, lasting = move.flows(touched[batch.src])
    pair, tight = positions[flows.pair], old.top > priority_limit
    at_base = _marked(len(moved), old.use_pair[old.use_rule < fabric.n_gpus])
    free = np.where(moved[pair], (flows.path == ANY) & at_base[pair], ~tight[batch.src[pair]] | at_base[pair])
    ingress = ingress_rules(fabric, part, flows, tags[positions], free, old.top)
    rules, detour = _lowered(old, ingress.rules, tight)

    # A pair keeps its ingress rules, unless new ones serve every packet it sends.
    rebound = _marked(len(moved), pair)
    rebound[pair[ingress.key_rule == ANY]] = False
    keep = _uses_that_stay(old, moved, rebound)
    served = lasting & (ingress.key_rule != ANY)
    n_old, n_transit = len(old.rules), len(transit.rules)
    new_transit = n_old + transit.key_rule[transit_lasting]
    new_ingress = n_old + n_transit + ingress.key_rule[served]
    use_rule = np.concatenate((old.use_rule[keep], new_transit, new_ingress))
    use_pair = np.concatenate((old.use_pair[keep], transit_pair[transit_lasting], pair[served]))
    everything = (*old.rules, *transit.rules, *rules)
    stays = _marked(len(everything), use_rule)
    stays[: fabric.n_gpus] = True
    number = np.cumsum(stays) - 1
    use_rule, use_pair = np.divmod(distinct(use_rule * len(moved) + use_pair), len(moved))

    top = _highest(old.top, rules, detour)
    kept = tuple(compress(everything, stays))
    state = Installed(
        version, tags, batch, move.classes, kept, number[use_rule], use_pair, top, tag, old.fresh
    )
    gone = compress(everything, ~stays)
    return state, RuleUpdate(version, transit.rules, (*detour, *rules), (*gone, *reversed(detour)))


def _marked(n: int, numbers: Int64) -> Bool:
    """(n,): whether each number from 0 is among these."""
    marks = np.zeros(n, bool)
    marks[numbers] = True
    return marks


def _uses_that_stay(old: Installed, moved: Bool, rebound: Bool) -> Bool:
    """(U,): whether a pair goes on using a rule: an ingress rule unless the pair is `rebound` (P,) to new
    ones, another one unless it is `moved` (P,)."""
    is_ingress = np.array([rule.priority >= INGRESS_PRIORITY for rule in old.rules], bool)
    return ~np.where(is_ingress[old.use_rule], rebound[old.use_pair], moved[old.use_pair])


def _highest(before: Int64, rules: tuple[Rule, ...], detour: tuple[Rule, ...]) -> Int64:
    """(n_gpus,): the highest priority of an ingress rule at each NIC, anew where there is a detour."""
    top = before.copy()
    top[[rule.switch for rule in detour]] = 0
    for rule in rules:
        top[rule.switch] = max(top[rule.switch], rule.priority)
    return top


class _RouteMove:
    """The packets of each pair after the move. `classes` (Q,): the entropy class of each path.

    Stale are the entropies of moved pairs that only their old paths had.
    """

    def __init__(self, fabric: Fabric, old: Installed, batch: PathBatch, moved: Bool) -> None:
        self._batch = batch
        new_path, old_path = moved[batch.path_pair], moved[old.batch.path_pair]
        self.classes = np.empty(len(new_path), np.int64)
        self.classes[new_path] = path_classes(fabric, take(batch, np.flatnonzero(moved)))
        self.classes[~new_path] = old.classes[~old_path]
        before = old.batch.path_pair[old_path] * MOST_PATHS + old.classes[old_path]
        after = batch.path_pair[new_path] * MOST_PATHS + self.classes[new_path]
        pair, entropy = np.divmod(np.setdiff1d(before, after), MOST_PATHS)
        # Class 0 of a pair without a path is dropped anyway.
        some = (np.diff(batch.pair_start)[pair] > 0) | (entropy > 0)
        self._stale_pair, self._stale_entropy = pair[some], entropy[some]

    def flows(self, chosen: Bool) -> tuple[Int64, PathBatch, FlowClasses, Bool]:
        """What the packets of the pairs `chosen` (P,) do, moved ones among them: positions and paths of the
        pairs, flows, and (F,) which flows last beyond the update. Stale ones go by the pair's first path."""
        positions = np.flatnonzero(chosen)
        part = take(self._batch, positions)
        fresh = FlowClasses.of(part, self.classes[chosen[self._batch.path_pair]])
        local, first = np.full(len(chosen), ANY), np.full(len(positions), ANY)
        local[positions] = np.arange(len(positions))
        zero = np.flatnonzero(fresh.entropy == 0)
        first[fresh.pair[zero]] = fresh.path[zero]
        pair = local[self._stale_pair]
        flows = FlowClasses(
            np.concatenate((fresh.pair, pair)),
            np.concatenate((fresh.path, first[pair])),
            np.concatenate((fresh.entropy, self._stale_entropy)),
        )
        return positions, part, flows, np.arange(len(flows.path)) < len(fresh.path)


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
