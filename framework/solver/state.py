"""All that a simulation knows between two events, as arrays that compiled and plain code share."""

from typing import NamedTuple

from railweave.framework.model.arrays import Bool, Float, Int32, Int64

HISTORY = 8
"""Ends of repetitions that are kept of an entry to which others are chained."""

SAME_TIME = 1e-12
"""Moments that differ by less, relative to them, are one: they come from sums in another order."""

OUT, OPEN = -2.0, -1.0
"""In `FlowState.fresh`: the flow keeps its rate; it has no fresh one yet."""

ACTIVE, JOINED, QUIT, HEAP, KNOWN, ENDED, DONE, SOLVED, EVENTS, REGION, VISIT, TRIES, WAIT, SOON = range(14)
"""Places in `FlowState.tally`: flows that have a rate or wait for one; how many of them wait; how many have
ended since rates were shared out; entries of the heap; entries of `known` that are over; jobs that have ended
and were not reported; repetitions done; rates computed; moments at which something happened. Of the sharing:
flows in `region`; how often links were gone through; how many changes will be solved as a whole after the
next failure, and from now on. Flows in `soon`."""


class FlowState(NamedTuple):
    """L links, P pairs, H hops, n entries of all jobs. Times in s, absolute; sizes in bits."""

    clock: Float
    """(3,): now; the share of its time by which the end of a flow may be noticed late; the horizon: flows
    that end by then are in `soon`."""
    tally: Int64

    capacity: Float
    start: Int64
    links: Int32
    uses: Float
    delay: Float

    pair: Int32
    bits: Float
    each_start: Int64
    each: Float
    seconds: Float
    repeat: Int64
    lag: Int32
    job: Int32
    follow_start: Int64
    follow: Int64
    chained_start: Int64
    chained: Int64
    chain_start: Int64
    chain: Int64
    next: Int32
    """(n,): the next entry of the same pair, -1 for the last."""

    waits: Int32
    """(n,): what the next repetition of an entry still waits for."""
    ready: Float
    """(n,): when the last of what it waited for ended."""
    done: Int64
    end: Float
    """(n,): the end of the last repetition that is done."""
    history: Float
    """(n, HISTORY): the end of repetition r at r % HISTORY; (0, HISTORY) if nothing is chained."""
    unfinished: Int64
    """(jobs,): entries of each job that are not over."""

    head: Int64
    """(P,): the entry of the pair that is served or will be next, -1 if none."""
    busy: Bool
    """(P,): whether bits of the head are left to send, now."""
    listed: Bool
    """(P,): whether the pair is in `active`."""
    asked: Float
    """(P,): bits of the head that `sent` leaves out."""
    left: Float
    """(P,): bits that were left at `since`."""
    since: Float
    rates: Float
    """(P,): inf before rates are shared out."""
    until: Float
    """(P,): the end of the head at this rate."""
    due: Float
    """(P,): when that end must be noticed."""
    began: Float
    free: Float
    """(P,): the end of the last entry of the pair that is done."""
    sent: Float
    """(P,): bits of the pair that were carried, but for those of `asked`."""

    active: Int32
    joined: Int32
    quit: Int32
    """(P,) each: pairs, as many as `tally` says."""
    heap_at: Float
    heap_entry: Int32
    """(n,): entries that start (transfers) or end (others) at those moments, as a binary heap."""
    known_at: Float
    known_entry: Int32
    """The same, sorted, of those known when the arrays were made."""

    first: Int64
    """(L+1,): the flows of link l are those of the hops `member[first[l]:first[l] + crowd[l]]`."""
    crowd: Int64
    member: Int32
    spot: Int32
    """(H,): where in `member` each hop is."""
    guest: Int32
    """(H,): the pairs of `member`. Empty, like the others of this group, in plain code."""
    entrant: Int32
    """(H,): the flows of each link that are solved again, from `first` on."""
    load: Float
    """(L,): the sum of `use` of all flows."""
    rest: Float
    open_use: Float
    open_flows: Int64
    entrants: Int64
    levels: Float
    """(L,): scratch of the sharing, as the rest; `level` and `order` are a heap of links by their share."""
    order: Int32
    touched: Int32
    seen: Int64
    fresh: Float
    stop: Int32
    """(P,): the link that holds each flow back, -1 for none."""
    held_flows: Int64
    """(L,): how many flows each link holds back."""
    region: Int32
    place: Int32
    """(P,): where in `active` each flow is."""
    soon: Int32
    is_soon: Bool
    """(P,): whether the pair is in `soon`."""

    @property
    def arrays(self) -> "FlowState":
        return self
