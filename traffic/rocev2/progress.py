"""How far an iteration over a schedule has come: which transfers may start, and when others ended. Transfers
are all entries of its list, local steps included."""

import numpy as np

from railweave.framework.model import Schedule
from railweave.framework.model.arrays import Float


class TransferProgress:
    """Counts what every transfer still waits for, and what has landed. Times are those of the caller's
    clock."""

    def __init__(self, schedule: Schedule) -> None:
        self.total = schedule.n_entries
        self.done = 0
        self._landed_at = [0.0] * self.total
        waits = np.diff(schedule.after_start)
        owner = np.repeat(np.arange(self.total), waits)
        order = np.argsort(schedule.after, kind="stable")
        self._waits: list[int] = waits.tolist()
        self._start: list[int] = np.searchsorted(schedule.after[order], np.arange(self.total + 1)).tolist()
        self._dependents: list[int] = owner[order].tolist()
        self._phase_of: list[int] = schedule.phase.tolist()
        self._n_phases = len(schedule.phase_names)

    def begin(self, now: float) -> list[int]:
        """Start the iteration; the transfers that wait for no other."""
        self.started_at = self.last_at = now
        self._phase_ends = [now] * self._n_phases
        return [transfer for transfer, waits in enumerate(self._waits) if waits == 0]

    def landed(self, transfer: int, now: float) -> list[int]:
        """Note the end of a transfer; the transfers that may start now."""
        self.done += 1
        self.last_at = self._landed_at[transfer] = now
        phase = self._phase_of[transfer]
        if phase < self._n_phases:
            self._phase_ends[phase] = now
        freed = []
        for dependent in self._dependents[self._start[transfer] : self._start[transfer + 1]]:
            self._waits[dependent] -= 1
            if self._waits[dependent] == 0:
                freed.append(dependent)
        return freed

    def ended(self, now: float) -> None:
        """Give what landed last the time at the end of its pass: landings are stamped with the beginning of
        theirs."""
        if self.done:
            self._phase_ends = [now if end == self.last_at else end for end in self._phase_ends]
            self.last_at = now

    @property
    def end_s(self) -> Float:
        """(total,), once complete: seconds from the start of the iteration until each transfer had landed."""
        end = np.array(self._landed_at, np.float64)
        end[end == end.max(initial=0.0)] = self.last_at
        return end - self.started_at

    @property
    def complete(self) -> bool:
        return self.done == self.total

    @property
    def phase_seconds(self) -> tuple[float, ...]:
        """From the end of the phase before each one (or the start) to the landing of its last transfer."""
        ends = np.maximum.accumulate([self.started_at, *self._phase_ends])
        return tuple(np.diff(ends).tolist())
