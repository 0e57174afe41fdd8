"""Max-min fairness as textbooks have it, in fractions: what the simulation is compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from railweave.framework.solver.network import Network
from railweave.framework.solver.tasks import Tasks


def water_filling(
    capacity: Sequence[Fraction], flows: Mapping[int, Mapping[int, Fraction]]
) -> dict[int, Fraction]:
    """Rates by flow: all grow together, and those of a link stop when it is full. `flows`: use by link."""
    rates = {flow: Fraction(0) for flow in flows}
    growing = {flow for flow, uses in flows.items() if uses}
    while growing:
        steps = []
        for link, total in enumerate(capacity):
            slope = sum((flows[flow].get(link, Fraction(0)) for flow in growing), Fraction(0))
            if slope:
                used = sum((uses.get(link, 0) * rates[flow] for flow, uses in flows.items()), Fraction(0))
                steps.append(((total - used) / slope, link))
        step = min(steps)[0]
        for flow in growing:
            rates[flow] += step
        full = {link for length, link in steps if length == step}
        growing -= {flow for flow in growing if full & set(flows[flow])}
    return rates


@dataclass
class Listed:
    """One repetition of an entry."""

    entry: int
    pair: int
    bits: Fraction
    seconds: Fraction
    release: Fraction
    after: set[int] = field(default_factory=set)
    ready: Fraction | None = None
    end: Fraction | None = None


def listed(tasks: Tasks) -> list[Listed]:
    """Every repetition, with all that it waits for; `after` and `chained` by their definition."""
    first = np.concatenate(([0], np.cumsum(tasks.repeat))).tolist()
    out = []
    for entry in range(tasks.n_tasks):
        after = tasks.after[tasks.after_start[entry] : tasks.after_start[entry + 1]].tolist()
        chained = tasks.chained[tasks.chained_start[entry] : tasks.chained_start[entry + 1]].tolist()
        for turn in range(int(tasks.repeat[entry])):
            each = tasks.each[tasks.each_start[entry] : tasks.each_start[entry + 1]]
            bits = float(each[turn] if len(each) else tasks.bits[entry])
            one = Listed(
                entry, int(tasks.pair[entry]), Fraction(bits),
                Fraction(float(tasks.seconds[entry])), Fraction(float(tasks.release_s[entry])),
            )  # fmt: skip
            one.after = {k for other in after for k in range(first[other], first[other + 1])}
            if turn >= tasks.lag[entry]:
                one.after |= {first[other] + turn - int(tasks.lag[entry]) for other in chained}
            if turn and one.pair < 0:
                one.after.add(first[entry] + turn - 1)
            out.append(one)
    return out


def exact_ends(network: Network, tasks: Tasks) -> list[float]:
    """(n,): the end of every entry, event by event."""
    capacity = [Fraction(float(c)) for c in network.capacity_bps]
    uses = [
        {
            int(network.link[h]): Fraction(float(network.use[h]))
            for h in range(*network.start[pair : pair + 2])
        }
        for pair in range(network.n_pairs)
    ]
    todo = listed(tasks)
    queue: dict[int, list[int]] = {}
    for i, one in enumerate(todo):
        queue.setdefault(one.pair, []).append(i)
    now = Fraction(0)
    flowing: dict[int, tuple[int, Fraction]] = {}  # by pair: repetition, bits left
    while any(one.end is None for one in todo):
        starts = []
        for i, one in enumerate(todo):
            if one.end is not None or any(todo[k].end is None for k in one.after):
                continue
            begin = max(one.release, *(todo[k].end for k in one.after), Fraction(0))
            if one.pair < 0:
                starts.append((begin + one.seconds, i))
            elif one.pair not in flowing and i == next(k for k in queue[one.pair] if todo[k].end is None):
                starts.append((begin + Fraction(float(network.delay_s[one.pair])), i))
        for at, i in sorted(starts):
            if at <= now:
                if todo[i].pair < 0:
                    todo[i].end = at
                else:
                    flowing[todo[i].pair] = (i, todo[i].bits)
        if any(at <= now for at, _ in starts):
            continue
        rates = water_filling(capacity, {pair: uses[pair] for pair in flowing})
        moments = [at for at, _ in starts]
        moments += [now + left / rates[pair] for pair, (_, left) in flowing.items() if rates[pair]]
        later = min(moments)
        for pair, (i, left) in list(flowing.items()):
            left -= rates[pair] * (later - now)
            flowing[pair] = (i, left)
            if left == 0:
                todo[i].end = later
                del flowing[pair]
        now = later
    ends = [Fraction(0)] * tasks.n_tasks
    for one in todo:
        assert one.end is not None
        ends[one.entry] = max(ends[one.entry], one.end)
    return [float(end) for end in ends]
