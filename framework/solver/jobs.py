"""The state of all jobs under way over one network."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import DTYPES, Float, Int32, Int64, spread
from railweave.framework.model.routes import starts
from railweave.framework.solver.network import Network
from railweave.framework.solver.state import (
    ACTIVE,
    HEAP,
    HISTORY,
    JOINED,
    KNOWN,
    OUT,
    QUIT,
    SAME_TIME,
    SOON,
    VISIT,
    FlowState,
)
from railweave.framework.solver.tasks import Tasks


@dataclass(slots=True)
class RunningJob:
    """A job under way, and what of it is done; its entries are those from `first` on of the state."""

    tasks: Tasks
    first: int
    waits: Int32
    ready: Float
    done: Int64
    end: Float
    history: Float

    @classmethod
    def new(cls, tasks: Tasks, at_s: float) -> "RunningJob":
        n = tasks.n_tasks
        waits = np.diff(tasks.after_start) + np.where(tasks.lag == 0, np.diff(tasks.chained_start), 0)
        return cls(
            tasks, 0, waits.astype(np.int32), at_s + tasks.release_s, np.zeros(n, np.int64),
            np.full(n, np.nan), np.zeros((n if len(tasks.chained) else 0, HISTORY)),
        )  # fmt: skip

    @property
    def entries(self) -> slice:
        return slice(self.first, self.first + self.tasks.n_tasks)

    def note(self, s: FlowState) -> None:
        """Take over how far the state is."""
        mine = self.entries
        self.waits, self.ready, self.done, self.end = s.waits[mine], s.ready[mine], s.done[mine], s.end[mine]
        if len(self.tasks.chained):
            self.history = s.history[mine]


def idle(network: Network, batch: float) -> FlowState:
    """No job, at time 0."""
    n = network.n_pairs
    arrays: dict[str, NDArray[Any]] = {
        name: np.empty(0, DTYPES[kind]) for name, kind in FlowState.__annotations__.items()
    }
    arrays |= {
        name: np.zeros(n) for name in ("asked", "left", "since", "rates", "until", "due", "began", "sent")
    }
    arrays |= {name: np.empty(n, np.int32) for name in ("active", "joined", "quit")}
    arrays |= {"busy": np.zeros(n, bool), "listed": np.zeros(n, bool), "head": np.full(n, -1, np.int64)}
    arrays |= {"free": np.full(n, -inf), "tally": np.zeros(14, np.int64)}
    return FlowState(**(arrays | {"clock": np.array([0.0, max(batch, SAME_TIME), -inf])}))


def pause(s: FlowState) -> None:
    """Take note of what flows have sent by now."""
    flows = np.flatnonzero(s.busy & np.isfinite(s.rates))
    moved = s.rates[flows] * (s.clock[0] - s.since[flows])
    s.left[flows] = np.maximum(s.left[flows] - moved, 0.0)
    s.sent[flows] += s.asked[flows] - s.left[flows]
    s.asked[flows] = s.left[flows]
    s.since[flows] = s.clock[0]


def state_of(network: Network, jobs: list[RunningJob], paused: FlowState, by_link: bool) -> FlowState:
    """The jobs over the network, from the moment of `paused` on; all rates are to be shared out.

    `by_link`: with the lists of each link's flows, which compiled code uses.
    """
    first = starts(np.array([job.tasks.n_tasks for job in jobs], np.int64))
    for job, place in zip(jobs, first.tolist(), strict=False):
        job.first = place
    n, size_count = int(first[-1]), _joined([np.diff(job.tasks.each_start) for job in jobs], np.int64)
    s = paused._replace(
        capacity=network.capacity_bps, start=network.start, links=network.link, uses=network.use,
        delay=network.delay_s,
        pair=_fixed([job.tasks.pair for job in jobs], np.int32),
        bits=_fixed([job.tasks.bits for job in jobs], np.float64),
        each_start=_fixed([starts(size_count)], np.int64),
        each=_fixed([job.tasks.each for job in jobs], np.float64),
        seconds=_fixed([job.tasks.seconds for job in jobs], np.float64),
        repeat=_fixed([job.tasks.repeat for job in jobs], np.int64),
        lag=_fixed([job.tasks.lag for job in jobs], np.int32),
        job=np.repeat(np.arange(len(jobs), dtype=np.int32), np.diff(first)),
        waits=_joined([job.waits for job in jobs], np.int32),
        ready=_joined([job.ready for job in jobs], np.float64),
        done=_joined([job.done for job in jobs], np.int64),
        end=_joined([job.end for job in jobs], np.float64),
        heap_at=np.empty(n), heap_entry=np.empty(n, np.int32), next=np.full(n, -1, np.int32),
        history=np.zeros((n if any(len(job.tasks.chained) for job in jobs) else 0, HISTORY)),
    )  # fmt: skip
    follow_start, follow = _lined_up([job.tasks.followers for job in jobs], first)
    chain_start, chain = _lined_up([job.tasks.chain_followers for job in jobs], first)
    chained_start, chained = _lined_up([(job.tasks.chained_start, job.tasks.chained) for job in jobs], first)
    unfinished = s.done < s.repeat
    for job in jobs:
        if len(job.tasks.chained):
            s.history[job.entries] = job.history
    s = s._replace(
        follow_start=follow_start, follow=follow, chain_start=chain_start, chain=chain,
        chained_start=chained_start, chained=chained,
        unfinished=np.bincount(s.job[unfinished], minlength=len(jobs)).astype(np.int64),
    )  # fmt: skip
    _queue(s, unfinished)
    s = _known(s, unfinished)
    flows = np.flatnonzero(s.busy)
    s.active[: len(flows)] = s.joined[: len(flows)] = flows
    s.listed[:] = s.busy
    s.rates[:] = s.until[:] = s.due[:] = inf
    s.tally[[ACTIVE, JOINED]] = len(flows)
    s.tally[[QUIT, HEAP, KNOWN, SOON]], s.clock[2] = 0, -inf
    return _crowds(s, network, flows) if by_link else s


def _joined(parts: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *parts])


def _fixed(parts: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """The same of what does not change, read-only; that of one job alone is not copied."""
    array = np.ascontiguousarray(parts[0] if len(parts) == 1 else _joined(parts, dtype))
    array.flags.writeable = False
    return array


def _lined_up(parts: list[tuple[Int64, Int64]], first: Int64) -> tuple[Int64, Int64]:
    """Ranges of entries of each job as one, in the numbers of the state."""
    if len(parts) == 1:
        return _fixed([parts[0][0]], np.int64), _fixed([parts[0][1]], np.int64)
    count = _joined([np.diff(start) for start, _ in parts], np.int64)
    shifted = [entries + shift for (_, entries), shift in zip(parts, first.tolist(), strict=False)]
    return _fixed([starts(count)], np.int64), _fixed(shifted, np.int64)


def _queue(s: FlowState, unfinished: NDArray[np.bool_]) -> None:
    """Each pair's entries behind each other."""
    queued = np.flatnonzero(unfinished & (s.pair >= 0))
    queued = queued[np.argsort(s.pair[queued], kind="stable")]
    same = s.pair[queued[1:]] == s.pair[queued[:-1]]
    s.next[queued[:-1][same]] = queued[1:][same]
    s.head[:] = -1
    foremost = queued[np.concatenate(([True], ~same))] if len(queued) else queued
    s.head[s.pair[foremost]] = foremost


def _known(s: FlowState, unfinished: NDArray[np.bool_]) -> FlowState:
    """Those that wait for nothing but their time."""
    free = np.flatnonzero(unfinished & (s.waits == 0))
    pair = s.pair[free]
    turn = pair < 0
    sent = np.flatnonzero(~turn)  # there may be no pair at all
    turn[sent] = (s.head[pair[sent]] == free[sent]) & ~s.busy[pair[sent]]
    free, pair = free[turn], pair[turn]
    transfer = pair >= 0
    at = s.ready[free] + s.seconds[free]
    at[transfer] = np.maximum(s.ready[free[transfer]] + s.delay[pair[transfer]], s.free[pair[transfer]])
    order = np.argsort(at, kind="stable")
    return s._replace(known_at=at[order], known_entry=free[order].astype(np.int32))


def _crowds(s: FlowState, network: Network, flows: Int64) -> FlowState:
    """Each link's flows listed."""
    n_links, n_pairs, n_hops = network.n_links, network.n_pairs, len(network.link)
    count = np.diff(s.start)[flows]
    hops = spread(s.start[flows], count)
    order = np.argsort(s.links[hops], kind="stable")
    hops, pairs = hops[order], np.repeat(flows, count)[order]
    link = s.links[hops]
    crowd = np.bincount(link, minlength=n_links).astype(np.int64)
    spot, member, guest = (np.empty(n_hops, np.int32) for _ in range(3))
    spot[hops] = network.link_start[link] + np.arange(len(hops)) - starts(crowd)[link]
    member[spot[hops]], guest[spot[hops]] = hops, pairs
    s.tally[VISIT] = 0
    place = np.zeros(n_pairs, np.int32)
    place[flows] = np.arange(len(flows))
    return s._replace(
        first=network.link_start, crowd=crowd, member=member, spot=spot, guest=guest,
        load=np.bincount(link, s.uses[hops], n_links).astype(np.float64),
        rest=np.zeros(n_links), open_use=np.zeros(n_links),
        open_flows=np.zeros(n_links, np.int64), entrants=np.zeros(n_links, np.int64),
        entrant=np.empty(n_hops, np.int32), levels=np.zeros(n_links), order=np.zeros(n_links, np.int32),
        touched=np.zeros(n_links, np.int32), seen=np.zeros(n_links, np.int64),
        fresh=np.full(n_pairs, OUT), stop=np.full(n_pairs, -1, np.int32),
        held_flows=np.zeros(n_links, np.int64), region=np.zeros(n_pairs, np.int32), place=place,
        soon=np.zeros(n_pairs, np.int32), is_soon=np.zeros(n_pairs, bool),
    )  # fmt: skip
