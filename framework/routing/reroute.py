"""The health loop's decisions: published scores in, changed routes out. No clock, no process, no packet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import NoPathError
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outlook import Outage, Outlook
from railweave.framework.health.publishing import rescored, slow_links
from railweave.framework.hookspecs import Router
from railweave.framework.model import (
    Demand,
    Fabric,
    HealthSnapshot,
    PathBatch,
)
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.model.names import link_changes, score_changes
from railweave.framework.routing.batches import (
    CHUNK,
    answer,
    batches,
    join,
    same_paths,
    take,
    unreachable,
)
from railweave.framework.routing.damping import broken_pairs, lacks, leaving, mean_hops, pair_scores, uneven
from railweave.framework.routing.decision import CUT_MARGIN, TIME_MARGIN, Arrangement, Offer, best
from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.forecast import Forecast, Prospects, gain
from railweave.framework.routing.router_calls import ask, placed, wants_demand
from railweave.framework.routing.table_checks import check_batch, pair_name
from railweave.framework.routing.views import answered, views

Pairs = tuple[Int64, Int64]
"""(src, dst) of the pairs in use, (P,) each."""


@dataclass(frozen=True, eq=False, slots=True)
class RouteChange:
    """`paths` of all pairs in use; `moved` (P,): the pairs that leave their old paths; `weighed` (P,): those
    that share them out otherwise; `why`: the scores that moved."""

    version: int
    paths: PathBatch
    moved: Bool
    weighed: Bool
    why: str


class RoutesInUse:
    """The routes of the pairs that carry traffic: requests them from the router, checks and damps its
    answers.

    `pairs`: all ordered pairs of GPUs by default. They are routed, checked and damped `block` pairs at a
    time, and nothing has an entry for a pair that is not in use. `demand`: what they send; pairs leave their
    paths only if that makes it end sooner. Without it scores alone decide, as in the source. Scores are
    ratios, so the fabric may have declared or emulated rates. `first`: the first routes of these pairs, in
    blocks, where `first_routes` has given them already.

    Raises RouteError naming the router if it fails, answers with something else, or gives a path that no
    packet could follow; NoPathError for pairs that it leaves without a path while everything is healthy.
    """

    def __init__(
        self,
        fabric: Fabric,
        router: Router,
        options: HealthOptions,
        name: str = "",
        pairs: Pairs | None = None,
        demand: JobDemand | None = None,
        *,
        first: Sequence[PathBatch] = (),
        block: int = CHUNK,
    ) -> None:
        self.fabric, self.router, self.options = fabric, router, options
        self.name = name or type(router).__name__
        self.version = 0
        self._routed = self._based_on = HealthSnapshot.healthy(fabric, margin=options.margin)
        self._again_s, self._weighed_up = np.inf, False  # when to ask again; whether a demand had a say
        self._prospects: Prospects = ((1.0, self._routed),)
        self._carries_anew = self._obsolete = False  # `_obsolete`: the router was told of another demand
        self._asked_with = self._routed  # with which the router gave the table in use
        self._whole = not router.damped or "deadlock-free" in router.promises(fabric)
        self._sends = demand.sent(fabric.n_gpus) if demand and wants_demand(router) else None
        self._blocks = list(first) or first_routes(
            fabric, router, self.name, options, pairs, self._sends, block=block
        )
        self._changed_at = [np.full(len(paths.src), -np.inf) for paths in self._blocks]
        self._expected = [np.zeros(len(paths.src)) for paths in self._blocks]  # score when paths were taken
        self.carry(demand)

    def carry(self, demand: JobDemand | None) -> None:
        """What the pairs send from now on; None: unknown, so that scores alone decide."""
        weigh = demand is not None and self.options.damping == "demand"
        self._forecast = Forecast(self.fabric, demand, self._blocks) if demand and weigh else None
        if demand is not None and wants_demand(self.router):
            sends = demand.sent(self.fabric.n_gpus)
            self._obsolete, self._sends = self._obsolete or sends != self._sends, sends
        if self._weighed_up or self._obsolete:
            self._again_s = -np.inf
            self._carries_anew = True

    @property
    def paths(self) -> PathBatch:
        """The paths of all pairs in use."""
        return join(*self._blocks)

    def asks(self, health: HealthSnapshot, now_s: float) -> bool:
        """Whether `react` would ask the router: scores are new, or a dwell time is over."""
        return health is not self._routed or now_s >= self._again_s

    def react(
        self,
        health: HealthSnapshot,
        now_s: float,
        prospects: Prospects = (),
        outage: Outage | None = None,
    ) -> RouteChange | None:
        """The change that newly published scores ask for, or None; cheap when nothing is new. `prospects`:
        what to expect, if that is more than `health`; `outage`: what else may be done about links that are
        expected back, as if those were up."""
        if not self.asks(health, now_s):
            return None
        self._routed = health
        followed, chosen = self._chosen(Outlook(health, tuple(prospects), outage), now_s)
        health = answered(self.fabric, followed.health, self.options.aggregate)
        weighed = _weighed(self._blocks, chosen.blocks, chosen.moved)
        if not (weighed.any() or chosen.moves):
            self._again_s = self._next_rested_s(now_s)
            return None
        why = self._why(self._based_on, followed.health) or self._why_now(followed.prospects)
        self._carries_anew = self._obsolete = False
        broken = [broken_pairs(block, health) for block in self._blocks]
        for block, leaves, expected in zip(chosen.blocks, chosen.moved, self._expected, strict=True):
            expected[leaves] = pair_scores(self.fabric, take(block, np.flatnonzero(leaves)), health)
        for lost, leaves, changed_at in zip(broken, chosen.moved, self._changed_at, strict=True):
            # what had no choice does not wait for the dwell time to return: while a cable flaps, that would
            # keep pairs on a slow detour for good
            forced = lost | (self._whole and any(pairs.any() for pairs in broken))
            changed_at[leaves] = np.where(forced[leaves], -np.inf, now_s)
        self._blocks, self._based_on = chosen.blocks, followed.health
        self._again_s = self._next_rested_s(now_s)
        # By change, not by snapshot: one may be acted on twice, before and after a dwell time.
        self.version += 1
        return RouteChange(self.version, self.paths, np.concatenate(chosen.moved), weighed, why)

    def _chosen(self, outlook: Outlook, now_s: float) -> tuple[Outlook, Arrangement]:
        """The routes for an outlook. Where links are expected back: as if they were up, or, where that pays
        more or nothing is known of what is sent, for the outlook without them."""
        forecast, outage = self._forecast, outlook.outage
        if outage is None:
            return outlook, self._arranged(outlook, now_s)
        if forecast is None:
            return outage.otherwise, self._arranged(outage.otherwise, now_s)
        waits, asked_with = self._arranged(outlook, now_s), self._asked_with
        waits_s = forecast.seconds(waits.blocks, self._prospects)
        leaves = self._arranged(outage.otherwise, now_s)
        slower = gain(forecast.seconds(leaves.blocks, self._prospects), waits_s)
        down = answered(self.fabric, outage.otherwise.health, self.options.aggregate)
        returns = any(
            (moved & broken_pairs(block, down)).any()
            for block, moved in zip(waits.blocks, waits.moved, strict=True)
        )  # nothing is to be gained before they are up
        if returns or not forecast.pays_to_wait(outage, slower, waits.blocks, leaves.blocks, leaves.moved):
            return outage.otherwise, leaves
        self._asked_with = asked_with
        return outlook, waits

    def _arranged(self, outlook: Outlook, now_s: float) -> Arrangement:
        how = self.options.aggregate
        health = answered(self.fabric, outlook.health, how)
        self._prospects = [(share, answered(self.fabric, state, how)) for share, state in outlook.prospects]
        self._prospects = self._prospects or [(1.0, health)]
        rested = self._rested(health, now_s)
        new = self._answer(health)
        tables = self._whole_tables if self._whole else self._pair_by_pair
        return tables(new, health, rested)

    def _rested(self, health: HealthSnapshot, now_s: float) -> list[Bool]:
        """(P,) of each block: the pairs that may leave their paths. Those that took them within the dwell
        time may only if these have proved worse by the margin than they were known to be."""
        rested = [now_s - changed_at >= self.options.dwell_s for changed_at in self._changed_at]
        for block, expected, may in zip(self._blocks, self._expected, rested, strict=True):
            if (rests := np.flatnonzero(~may)).size:
                score = pair_scores(self.fabric, take(block, rests), health)
                may[rests] = self.options.margin * score < expected[rests] - EQUAL_WITHIN
        return rested

    def _answer(self, health: HealthSnapshot) -> list[PathBatch]:
        """The router's paths for the pairs in use, proved sound."""
        table = ask(self.router, self.name, self.fabric, health, self._sends)
        blocks = [answer(table, block.src, block.dst) for block in self._blocks]
        with placed(self.router):
            for block in blocks:
                check_batch(self.fabric, self.name, block, health)
        return blocks

    def _whole_tables(
        self, new: list[PathBatch], health: HealthSnapshot, rested: Sequence[Bool]
    ) -> Arrangement:
        """One of the router's tables, or the one in use: proofs of a table hold for no mixture of two."""
        forecast, answered = self._forecast, Arrangement.whole(self._blocks, new)
        if forecast is None:
            return answered
        forced = self._obsolete or any(broken_pairs(block, health).any() for block in self._blocks)
        here = [np.zeros(len(block.src), bool) for block in self._blocks]
        base = answered if forced else Arrangement(self._blocks, here)
        tried = [(base, health if forced else self._asked_with)]

        def offered(view: HealthSnapshot, factor: float) -> Iterator[Offer]:
            table = self._answer(view)
            if not any((lacks(a) & ~lacks(b)).any() for a, b in zip(table, new, strict=True)):
                tried.append((Arrangement.whole(self._blocks, table), view))
                yield Offer(tried[-1][0], factor)

        def offers() -> Iterator[Offer]:
            # what is still whole has no reason to be left for the answer to another failure
            before, up = self._asked_with, ~health.down
            rise = np.where(before.down, 1.0, health.link_score - before.link_score)[up]
            if not forced and rise.any():
                tried.append((answered, health))
                yield Offer(answered, 1.0 if rise.max() > 0 else TIME_MARGIN)
            for view in self._well(health):
                yield from offered(view, TIME_MARGIN)
            for view in self._cut(health, forecast, [arrangement for arrangement, _ in tried]):
                yield from offered(view, CUT_MARGIN)

        def at_rest(offer: Offer) -> bool:
            moved = zip(offer.arrangement.moved, rested, strict=True)
            return offer.arrangement.moves and (forced or not any((m & ~r).any() for m, r in moved))

        chosen = best(base, filter(at_rest, offers()), forecast, self._prospects)
        self._asked_with = next(view for arrangement, view in tried if arrangement is chosen)
        return chosen

    def _pair_by_pair(
        self,
        new: list[PathBatch],
        health: HealthSnapshot,
        rested: Sequence[Bool],
    ) -> Arrangement:
        """Every pair on one of the router's paths for it, or on those in use. Pairs without a demand follow
        scores."""
        margin, forecast, old = self.options.margin, self._forecast, self._blocks
        differs = [~same_paths(before, after) for before, after in zip(old, new, strict=True)]
        by_score = [
            leaving(self.fabric, before, after, other, health, rest, margin)
            for before, after, other, rest in zip(old, new, differs, rested, strict=True)
        ]
        if self._obsolete:  # no path in use answers what is sent now
            by_score = [np.ones(len(block.src), bool) for block in old]
        if forecast is None:
            every = [np.ones_like(moved) for moved in by_score]
            return Arrangement.mixed(old, new, differs, by_score, every)
        return self._paying(new, differs, health, forecast, by_score, rested)

    def _paying(
        self,
        new: list[PathBatch],
        differs: Sequence[Bool],
        health: HealthSnapshot,
        forecast: Forecast,
        by_score: Sequence[Bool],
        rested: Sequence[Bool],
    ) -> Arrangement:
        """The pairs that send something where the demand ends soonest, in paths and in shares of them."""
        old = self._blocks
        broken = [broken_pairs(block, health) | self._obsolete for block in old]
        sends = [np.zeros(len(block.src), bool) for block in old]
        for mask, positions in zip(sends, forecast.with_demand, strict=True):
            mask[positions] = True
        free = [mask & rest for mask, rest in zip(sends, rested, strict=True)]
        unjudged = [lost | ~mask for lost, mask in zip(broken, sends, strict=True)]
        forced = [leaves & follows for leaves, follows in zip(by_score, unjudged, strict=True)]
        answered = Arrangement.mixed(old, new, differs, forced, [np.ones_like(mask) for mask in sends])
        base = Arrangement.mixed(old, new, differs, forced, unjudged)
        if not base.weighs_like(answered):
            base = best(base, [Offer(answered, CUT_MARGIN)], forecast, self._prospects)
        shorter = [mean_hops(a) < mean_hops(b) - EQUAL_WITHIN for a, b in zip(new, old, strict=True)]

        def starts() -> tuple[Arrangement, ...]:
            return (base,) if base.weighs_like(answered) else (base, answered)

        def offer(paths: list[PathBatch], may: Iterable[Bool], factor: float) -> Iterator[Offer]:
            pairs = list(may)
            for start in starts():
                if (arrangement := start.with_more(old, paths, pairs)) is not start:
                    yield Offer(arrangement, factor)

        back = offer(new, (a & b & ~lacks(p) for a, b, p in zip(free, shorter, new, strict=True)), 1.0)
        base = best(base, list(back), forecast, self._prospects)

        def offers() -> Iterator[Offer]:
            yield from offer(new, (a & b for a, b in zip(free, by_score, strict=True)), TIME_MARGIN)
            if any(uneven(paths) for paths in new):  # a slow path does no harm in a small share
                lacking = (a & ~lacks(paths) for a, paths in zip(free, new, strict=True))
                yield from offer(new, lacking, TIME_MARGIN)
            yield from self._of_views(starts(), health, forecast, free)

        return best(base, offers(), forecast, self._prospects)

    def _of_views(
        self, starts: Sequence[Arrangement], health: HealthSnapshot, forecast: Forecast, free: Sequence[Bool]
    ) -> Iterator[Offer]:
        """The router's answers to views of the links on top of `starts`, for the pairs that are `free`. Where
        links are cut, for the pairs that cross what one of these views cuts, and for all: the worst links may
        be all that is worth leaving, for paths that avoid whatever is slow. And as links become known one by
        one, the best may be reached from where nothing is slow alone, so that answer is a start, too."""
        old, bases = self._blocks, [(start, 1.0) for start in starts]
        for view in self._well(health):
            table, pairs = self._reachable(view, free)
            for start in starts:
                if (arrangement := start.with_more(old, table, pairs)) is not start:
                    yield Offer(arrangement, TIME_MARGIN)
                    bases.append((arrangement, TIME_MARGIN))
        cuts = self._cut(health, forecast, [start for start, _ in bases])
        for view in cuts:
            table, pairs = self._reachable(view, free)
            for start, least in bases:
                crossing = ([broken_pairs(block, cut) for block in start.blocks] for cut in cuts)
                some = ([a & b for a, b in zip(pairs, cross, strict=True)] for cross in crossing)
                for may in (*some, pairs):
                    if (arrangement := start.with_more(old, table, may)) is not start:
                        yield Offer(arrangement, max(least, CUT_MARGIN))

    def _reachable(self, view: HealthSnapshot, free: Sequence[Bool]) -> tuple[list[PathBatch], list[Bool]]:
        """The router's paths by a view, and which of the free pairs have one."""
        table = self._answer(view)
        return table, [rest & ~lacks(paths) for rest, paths in zip(free, table, strict=True)]

    def _well(self, health: HealthSnapshot) -> Iterator[HealthSnapshot]:
        """As if what comes and goes were well; and as if nothing were slow."""
        self._weighed_up = True
        if len(self._prospects) > 1:
            yield self._prospects[-1][1]
        if (slow := slow_links(health, self.options.step)).any():
            well = np.where(slow, 1.0, health.link_score)
            yield rescored(self.fabric, health, well, self.options.aggregate)

    def _cut(
        self, health: HealthSnapshot, forecast: Forecast, starts: Iterable[Arrangement]
    ) -> list[HealthSnapshot]:
        """As if slow links were cut, where a demand crosses some in one of `starts`."""
        busy_s = [forecast.busy_s(start.blocks) for start in starts]
        return views(self.fabric, health, self.options.step, self.options.aggregate, busy_s)

    def _next_rested_s(self, now_s: float) -> float:
        """When the next dwell time is over: what only that holds back is tried again then; inf for never."""
        at, dwell_s = np.concatenate(self._changed_at), self.options.dwell_s
        return float(at[now_s - at < dwell_s].min(initial=np.inf)) + dwell_s

    def _why(self, before: HealthSnapshot, now: HealthSnapshot) -> str:
        """The scores that moved since routes last changed, largest move first: `rail:1 0.70 -> 0.10`. Links
        are named where they moved by two steps more than their switch."""
        of_element = np.append(np.abs(now.element_score - before.element_score), 0.0)  # last: of no switch
        beyond = np.abs(now.link_score - before.link_score) - of_element[self.fabric.link_element]
        own = beyond >= 2 * self.options.step - EQUAL_WITHIN
        named = score_changes(self.fabric, before, now) | link_changes(self.fabric, before, now, own)
        changes = named or link_changes(self.fabric, before, now)
        order = sorted(changes.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
        return ", ".join(f"{name} {old:.2f} -> {new:.2f}" for name, (old, new) in order[:3])

    def _why_now(self, prospects: Prospects) -> str:
        """Why routes change although no score has since they last did."""
        if self._carries_anew:
            return "other traffic, with the scores as before"
        if len(prospects) > 1:
            return "links that come and go, with the scores as before"
        if self.router.damped and self.options.dwell_s > 0:
            return "earlier scores, after the dwell time"
        return "the router's answer, with the scores as before"


def _weighed(old: Sequence[PathBatch], new: Sequence[PathBatch], moved: Sequence[Bool]) -> Bool:
    """(P,): the pairs of all blocks that keep their paths, with other weights."""
    reweighted = []
    for before, after, leaves in zip(old, new, moved, strict=True):
        differs = np.zeros(len(leaves), bool)
        if not np.array_equal(before.weight, after.weight):
            stays = np.flatnonzero(~leaves)
            a, b = take(before, stays), take(after, stays)
            differs[stays[a.path_pair[a.weight != b.weight]]] = True
        reweighted.append(differs)
    return np.concatenate(reweighted)


def first_routes(
    fabric: Fabric,
    router: Router,
    name: str,
    options: HealthOptions,
    pairs: Pairs | None = None,
    demand: Demand | None = None,
    *,
    block: int = CHUNK,
) -> list[PathBatch]:
    """The paths of `pairs` (all by default) before anything was measured, in blocks, proved sound.

    Raises as `RoutesInUse` does.
    """
    health = HealthSnapshot.healthy(fabric, margin=options.margin)
    blocks = list(batches(ask(router, name, fabric, health, demand), pairs, block))
    with placed(router):
        for paths in blocks:
            check_batch(fabric, name, paths, health)
    if lost := [pair_name(fabric, *pair) for paths in blocks for pair in unreachable(paths)]:
        rest = f" and {len(lost) - 5} more pairs" if len(lost) > 5 else ""
        raise NoPathError(f"router {name} gives no path for {', '.join(lost[:5])}{rest}.")
    return blocks
