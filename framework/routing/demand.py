"""What the jobs of a run send: pairs, and what they send at once."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from railweave.framework.health.waits import Bursts
from railweave.framework.model import Demand, PacketFormat, PathBatch, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64, spread
from railweave.framework.model.senders import Senders
from railweave.framework.routing.batches import distinct
from railweave.framework.solver.chains import Chains

StatesSenders = Callable[[PathBatch], Senders | None]
"""How the senders of the pairs of some paths wait, in declared seconds; None: as `fluid` has it."""


class JobDemand:
    """The iterations of the jobs of a run, which are under way at once. `schedules`: of each job, between
    GPUs."""

    def __init__(
        self, schedules: Sequence[Schedule], packet: PacketFormat, senders: StatesSenders | None = None
    ) -> None:
        self.schedules, self.packet, self._senders = tuple(schedules), packet, senders
        self._phases: list[Bursts] | None = None

    @cached_property
    def chains(self) -> list[Chains | None]:
        """Of each schedule, what waits for what."""
        return [Chains.of(schedule) for schedule in self.schedules]

    def sent(self, n_gpus: int) -> Demand:
        """What all of them send in an iteration, for routers that ask."""
        return Demand.of(self.schedules, n_gpus)

    def senders(self, paths: PathBatch) -> Senders | None:
        """How those of the pairs of `paths` wait, if that is stated."""
        return None if self._senders is None else self._senders(paths)

    def phases(self, n_gpus: int) -> list[Bursts]:
        """What is sent in each round of the phases of the schedules, its pairs as `pairs` has them; of rounds
        that do not differ in that, one."""
        if self._phases is None:
            sets = dict[bytes, Bursts]()
            for schedule in self.schedules:
                number = schedule.src.astype(np.int64) * n_gpus + schedule.dst
                chained = np.diff(schedule.chained_start) > 0
                of_entry = np.repeat(np.arange(len(chained)), np.diff(schedule.after_start))
                chained[of_entry[schedule.phase[of_entry] == schedule.phase[schedule.after]]] = True
                row = np.where(chained, np.minimum(schedule.lag, schedule.repeat), schedule.repeat)
                bits = 8.0 * schedule.in_all(self.packet.wire_bytes_of) * row / schedule.repeat
                for sends in _at_once(schedule):
                    pairs, place = np.unique(number[sends], return_inverse=True)
                    in_a_row, of_row = (
                        _in_a_row(place, amount[sends], chained[sends]) for amount in (row, bits)
                    )
                    key = b"".join(array.tobytes() for array in (pairs, in_a_row, of_row))
                    sets[key] = Bursts(pairs, in_a_row, of_row)
            self._phases = list(sets.values())
        return self._phases

    def pairs(self, n_gpus: int) -> Int64:
        """The pairs that send something, ascending, as src * n_gpus + dst."""
        numbers = [src * n_gpus + dst for src, dst, _ in (schedule.pairs() for schedule in self.schedules)]
        return distinct(np.concatenate([np.empty(0, np.int64), *numbers]))


def _at_once(schedule: Schedule) -> list[Int64]:
    """The transfers of each round of each phase, what may be sent as soon as the round before has arrived.
    Where a pair sends several one after another, so do the pairs that wait for them: as many rounds are
    under way at once."""
    sent = np.flatnonzero(schedule.is_transfer)
    rounds, waits = _rounds(schedule)[sent], np.diff(schedule.chained_start)[sent] > 0
    turns = np.where(waits, schedule.repeat[sent] / np.maximum(schedule.lag[sent], 1), 1)
    sender = (rounds * schedule.n_ranks + schedule.src[sent]) * schedule.n_ranks + schedule.dst[sent]
    _, of_sender = np.unique(sender, return_inverse=True)
    one_after_another = np.ceil(np.bincount(of_sender, turns))[of_sender]
    phase, within = np.divmod(rounds, schedule.n_entries + 1)
    at_once = phase * (schedule.n_entries + 1) + within // one_after_another
    order = np.argsort(at_once, kind="stable")
    return np.split(sent[order], np.flatnonzero(np.diff(at_once[order])) + 1) if sent.size else []


def _rounds(schedule: Schedule) -> Int64:
    """(n,): the rounds of all phases in order, by number: the first of a phase, the one that waits for a
    transfer of the first, and so on. Computations, joins and local steps need not be of the phase of what
    waits for them, so theirs is the round after the last transfer that they wait for."""
    n, after = schedule.n_entries, schedule.after
    of_entry = np.repeat(np.arange(n), np.diff(schedule.after_start))
    order = np.argsort(after, kind="stable")
    first = np.searchsorted(after[order], np.arange(n + 1))
    sends, earliest = schedule.is_transfer, schedule.phase.astype(np.int64) * (n + 1)
    rounds, waits_for = np.where(sends, earliest, 0), np.diff(schedule.after_start)
    ready = np.flatnonzero(waits_for == 0)
    while ready.size:
        edges = order[spread(first[ready], np.diff(first)[ready])]
        later, before = of_entry[edges], after[edges]
        np.maximum.at(rounds, later, rounds[before] + sends[before])
        np.subtract.at(waits_for, later, 1)
        ready = distinct(later[waits_for[later] == 0])
    return rounds


def _in_a_row(pair: Int64, amount: Float, chained: Bool) -> Float:
    """What pairs send in a row: all that waits for nothing of its phase, or of entries that are `chained` to
    others of it what the largest sends until it waits."""
    free, most = np.bincount(pair, np.where(chained, 0, amount)), np.zeros(pair.max(initial=-1) + 1)
    np.maximum.at(most, pair[chained], amount[chained])
    return np.asarray(free + most)
