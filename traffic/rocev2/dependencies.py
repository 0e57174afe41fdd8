"""Which transfers of a schedule may start, as others complete."""

import numpy as np

from railweave.framework.model import Schedule


class Dependencies:
    """Counts how many transfers every transfer still waits for."""

    def __init__(self, schedule: Schedule) -> None:
        n = schedule.n_transfers
        owner = np.repeat(np.arange(n), np.diff(schedule.after_start))
        order = np.argsort(schedule.after, kind="stable")
        self._waits: list[int] = np.diff(schedule.after_start).tolist()
        self._start: list[int] = np.searchsorted(schedule.after[order], np.arange(n + 1)).tolist()
        self._dependents: list[int] = owner[order].tolist()

    @property
    def ready(self) -> list[int]:
        """Transfers that wait for no other."""
        return [transfer for transfer, waits in enumerate(self._waits) if waits == 0]

    def complete(self, transfer: int) -> list[int]:
        """Transfers that may start now that this one is complete."""
        freed = []
        for dependent in self._dependents[self._start[transfer] : self._start[transfer + 1]]:
            self._waits[dependent] -= 1
            if self._waits[dependent] == 0:
                freed.append(dependent)
        return freed
