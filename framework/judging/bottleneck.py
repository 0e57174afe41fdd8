"""What held an iteration: the chain of transfers that its time consists of, split over the links of their
routes by what each carried and at which rate it was measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int64
from railweave.framework.model.findings import CriticalPath, HealthSamples, IterationRecord
from railweave.framework.model.names import element_name, nic_of, weak_links
from railweave.framework.results.figures import Bottleneck

ALIKE = 1.1
"""Ratio up to which an element is as good as its like, and a link serves its declared rate."""
EVIDENT = 0.03
"""Share of an iteration's time that a slow element must have cost to be what held it."""
DOWN = 1e-3
"""Share of its declared rate that a link counts with while it is down, so that times stay finite."""
MOST_ROWS = 256
"""Samples of an iteration that are looked at, evenly spread; each is a row of n_links."""
BUSY = 0.1
"""Share of the time that a link must have been busy to have held it, where nothing else is known."""
USED = 0.05
"""Share of the busiest element's time below which another was idle: it is no measure for its like, unless it
joins the same nodes and could have carried as much."""


def rates_during(
    fabric: Fabric, samples: HealthSamples, spans: Sequence[tuple[float, float]]
) -> Iterator[tuple[Float, Float]]:
    """For each span (begin, end), in order of time: when links were sampled during it, (m,), and the rate of
    every link as known then, (m, n_links), bit/s; at its end where there was no sample.

    That is the service rate stated last, or the share of the declared rate that its score says if that is
    less; the declared one (`fabric`) where neither says anything.
    """
    declared, done = fabric.capacity_bps, 0
    stated = rate = declared
    for begin_s, end_s in spans:
        low, high = np.searchsorted(samples.t_s, begin_s), np.searchsorted(samples.t_s, end_s, "right")
        every = 1 + (high - low) // MOST_ROWS
        times: list[float] = []
        rates: list[Float] = []
        for row in range(done, int(high)):
            service = samples.service_bps[row]
            stated = np.where(np.isnan(service), stated, service)
            by_score = samples.link_score[row] * declared
            rate = np.clip(np.minimum(stated, by_score), DOWN * declared, declared)
            if row >= low and (high - 1 - row) % every == 0:
                times.append(float(samples.t_s[row]))
                rates.append(rate)
        done = max(done, int(high))
        yield np.array(times or [end_s]), np.array(rates or [rate])


@dataclass(frozen=True, eq=False, slots=True)
class Attribution(ArrayNoun):
    """Where `seconds` went. (H,) each, one per link that a part of the critical path passed: `link`; `src`,
    the GPU that sent over it; `held_s`, its share of the time; `lost_s`, what of that it would have saved at
    its declared rate. (n_links,) each: `busy_s`, what each link of the fabric carried, over its rate; `weak`,
    whether it scored below its switch."""

    seconds: float
    link: Int64
    src: Int64
    held_s: Float
    lost_s: Float
    busy_s: Float
    weak: Bool

    @classmethod
    def of(
        cls, fabric: Fabric, path: CriticalPath, seconds: float, t_s: Float, rates_bps: Float, weak: Bool
    ) -> Self:
        """Of an iteration; `rates_bps` (m, n_links) as known at `t_s` (m,), seconds from its start; `weak`
        at its end.

        The time of a part belongs to the paths of its pair whose busiest link is as busy as any, alike, and
        on each of them to its links by what they carried over their rates at the end of the part.
        """
        paths, carried = path.paths, np.maximum(path.link_bytes, 1.0) * 8
        mean_busy_s = (carried / rates_bps).mean(axis=0)
        if not len(path.end_s):
            none = np.empty(0, np.int64)
            return cls(seconds, none, none, np.empty(0), np.empty(0), mean_busy_s, weak)
        row = np.minimum(np.searchsorted(t_s, path.end_s), len(t_s) - 1)
        hop, pair = paths.hop_path, paths.path_pair
        rate = rates_bps[row[pair[hop]], paths.links]
        busy = carried[paths.links] / rate
        busiest = np.maximum.reduceat(busy, paths.hop_start[:-1])
        most = np.zeros(len(paths.src))
        np.maximum.at(most, pair, busiest)
        slowest = busiest * ALIKE >= most[pair]
        seconds_each = (path.end_s - path.begin_s) / np.bincount(pair, slowest, len(most)).clip(1)
        of_path = slowest * seconds_each[pair]
        held_s = of_path[hop] * busy / np.bincount(hop, busy)[hop]
        share = rate / fabric.capacity_bps[paths.links]
        lost_s = np.where(share * ALIKE < 1, held_s * (1 - share), 0.0)
        links = paths.links.astype(np.int64)
        return cls(seconds, links, paths.src[pair[hop]], held_s, lost_s, mean_busy_s, weak)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of several iterations as a whole."""
        return cls(
            sum(part.seconds for part in parts),
            np.concatenate([part.link for part in parts]),
            np.concatenate([part.src for part in parts]),
            np.concatenate([part.held_s for part in parts]),
            np.concatenate([part.lost_s for part in parts]),
            np.sum([part.busy_s for part in parts], axis=0),
            np.any([part.weak for part in parts], axis=0),
        )


def bottleneck(fabric: Fabric, iteration: int | None, time: Attribution, job: int = 0) -> Bottleneck | None:
    """The element that held the most of this time; a link that belongs to no switch, or is slow alone among
    the links of its switch, stands for itself. None where nothing passed a link.

    An element below its declared rate comes first, by the time lost there; then one whose busiest link was
    busier than those of its like (the lower median of its kind), by the time held. If there is none of
    either, the time is balanced.
    """
    if not len(time.link):
        return _busiest(fabric, iteration, time, job) if time.busy_s.max(initial=0.0) > 0 else None
    unit = _units(fabric)
    n = fabric.n_nodes + fabric.n_links
    held_s, lost_s = (np.bincount(unit[time.link], values, n) for values in (time.held_s, time.lost_s))
    chosen, by = lost_s >= EVIDENT * time.seconds, time.lost_s
    spared = np.zeros(n, np.int64)
    if not chosen.any():
        spared = _spared(fabric, unit, time.busy_s)
        over = _over(fabric, unit, time.busy_s) | (spared > 0)
        chosen, by = over & (held_s >= USED * time.seconds), time.held_s
    balanced = not chosen.any()
    which = int(np.argmax(np.bincount(unit[time.link], by, n) * (chosen | balanced)))
    in_unit = unit[time.link] == which
    link = int(np.argmax(np.bincount(time.link[in_unit], by[in_unit], fabric.n_links)))
    senders = np.bincount(time.src, np.where(time.link == link, time.held_s, 0.0))
    ends = _gpus_of(fabric, link)
    nic, alone, share = nic_of(fabric, link), by is time.lost_s and bool(time.weak[link]), held_s[which]
    if alone:
        its = [
            other
            for other in np.unique(time.link[in_unit])
            if other == link or (nic and nic_of(fabric, other) == nic)
        ]
        share = time.held_s[np.isin(time.link, its)].sum()
    return Bottleneck(
        iteration=iteration,
        element=element_name(fabric, which) if which < fabric.n_nodes and not alone else None,
        link=fabric.link_name(link),
        rank=ends[0] if ends else int(np.argmax(senders)),
        share=float(share / time.seconds),
        balanced=balanced,
        job=job,
        nic=nic,
        spared=0 if balanced else int(spared[which]),
    )


def _busiest(fabric: Fabric, iteration: int | None, time: Attribution, job: int) -> Bottleneck:
    """The link that was busy longest, of an iteration whose transfers are not known; rank -1 where it joins
    two switches."""
    unit, link = _units(fabric), int(np.argmax(time.busy_s))
    which, ends = int(unit[link]), _gpus_of(fabric, link)
    share = min(1.0, float(time.busy_s[link] / time.seconds)) if time.seconds > 0 else 1.0
    return Bottleneck(
        iteration=iteration,
        element=element_name(fabric, which) if which < fabric.n_nodes else None,
        link=fabric.link_name(link),
        rank=ends[0] if ends else -1,
        share=share,
        balanced=share < BUSY or not _over(fabric, unit, time.busy_s)[which],
        job=job,
        nic=nic_of(fabric, link),
    )


def _units(fabric: Fabric) -> Int64:
    """(n_links,): the element of every link, numbered as a node; links without one behind the nodes."""
    own_unit = fabric.n_nodes + np.arange(fabric.n_links)
    return np.where(fabric.link_element >= 0, fabric.link_element, own_unit).astype(np.int64)


def _gpus_of(fabric: Fabric, link: int) -> list[int]:
    return [int(end) for end in (fabric.link_src[link], fabric.link_dst[link]) if end < fabric.n_gpus]


def _over(fabric: Fabric, unit: Int64, busy_s: Float) -> Bool:
    """(units,): those whose busiest link is busier by `ALIKE` than that of their like."""
    busiest = np.zeros(fabric.n_nodes + fabric.n_links)
    np.maximum.at(busiest, unit, busy_s)
    firsts = [group.first for group in fabric.groups]
    kinds = np.concatenate(
        (-1 - np.searchsorted(firsts, np.arange(fabric.n_nodes), side="right"), fabric.link_kind)
    )
    over = np.zeros(len(busiest), bool)
    present = np.zeros(len(busiest), bool)
    present[unit] = True
    for kind in np.unique(kinds[present]):
        like = np.flatnonzero(present & (kinds == kind))
        in_use = busiest[like] >= USED * busiest[like].max()
        stand_ins = _stand_ins(fabric, like, in_use, busy_s).values()
        in_use |= np.isin(like, [other for others in stand_ins for other in others])
        used = np.sort(busiest[like[in_use]])
        over[like] = busiest[like] > ALIKE * used[(len(used) - 1) // 2]
    return over


def _spared(fabric: Fabric, unit: Int64, busy_s: Float) -> Int64:
    """(units,): how many ways equal to each lie idle: elements of its kind that join nodes which it joins,
    or cables parallel to the one of its links that was busiest."""
    n = fabric.n_nodes + fabric.n_links
    busiest, spared = np.zeros(n), np.zeros(n, np.int64)
    np.maximum.at(busiest, unit, busy_s)
    ends = fabric.link_src.astype(np.int64) * fabric.n_nodes + fabric.link_dst
    _, cables = np.unique(ends, return_inverse=True)
    most = np.zeros(cables.max(initial=0) + 1)
    np.maximum.at(most, cables, busy_s)
    idle = np.bincount(cables, busy_s < USED * most[cables])[cables].astype(np.int64)
    top = np.flatnonzero((busy_s == busiest[unit]) & (busy_s > 0))
    spared[unit[top]] = idle[top]
    for group in fabric.groups[1:]:
        like = np.intersect1d(np.arange(group.first, group.first + group.size), unit)
        in_use = busiest[like] >= USED * busiest[like].max(initial=0.0)
        for node, ways in _stand_ins(fabric, like, in_use, busy_s).items():
            spared[node] += len(ways)
    return spared


def _stand_ins(fabric: Fabric, units: Int64, in_use: Bool, busy_s: Float) -> dict[int, list[int]]:
    """For those of these elements that are in use, the idle ones that could have carried what they did: they
    join a node from which it came and another to which it went."""
    stand_ins: dict[int, list[int]] = {}
    idle = set(units[~in_use].tolist())
    if not idle or units.max() >= fabric.n_nodes:
        return stand_ins
    for node in units[in_use].tolist():
        out = fabric.out_links(node)
        least = USED * max(busy_s[out].max(), busy_s[out ^ 1].max())
        ends = [set(fabric.link_dst[out[busy_s[way] > least]].tolist()) for way in (out ^ 1, out)]
        near = {
            int(end): set(fabric.link_dst[fabric.out_links(end)].tolist()) & idle for end in set.union(*ends)
        }
        joined = {
            other: {end for end, others in near.items() if other in others}
            for other in set().union(*near.values())
        }
        stand_ins[node] = [
            other for other, its in joined.items() if len(its) > 1 and all(its & side for side in ends)
        ]
    return stand_ins


def _weak_at(fabric: Fabric, samples: HealthSamples, t_s: float, margin: float) -> Bool:
    """(n_links,): links that scored below their switch then."""
    if not (n := int(np.searchsorted(samples.t_s, t_s, "right"))):
        return np.zeros(fabric.n_links, bool)
    return weak_links(fabric, samples.link_score[n - 1], samples.element_score[n - 1], margin)


def bottlenecks(
    fabric: Fabric, iterations: Sequence[IterationRecord], samples: HealthSamples, margin: float
) -> tuple[Bottleneck, ...]:
    """One for each iteration whose transfers were timed, or whose links were counted alone, and, last, one
    for all of them together. `fabric` has emulated rates; `margin`: by which scores differ."""
    timed = [(record, record.critical) for record in iterations if record.critical is not None]
    rates = rates_during(fabric, samples, [(record.begin_s, record.end_s) for record, _ in timed])
    times = [
        Attribution.of(
            fabric,
            path,
            record.result.seconds,
            t_s - record.begin_s,
            rates_bps,
            _weak_at(fabric, samples, record.end_s, margin),
        )
        for (record, path), (t_s, rates_bps) in zip(timed, rates, strict=True)
    ]
    named = [
        bottleneck(fabric, record.result.iteration, time, record.job)
        for (record, _), time in zip(timed, times, strict=True)
    ]
    if len(times) > 0:
        named.append(bottleneck(fabric, None, Attribution.together(times), iterations[0].job))
    return tuple(entry for entry in named if entry is not None)
