"""Jobs that wait for switches, one after another, without a thread that waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

Token = tuple[int, int]
"""(datapath id, number of the request): one answer that a job waits for."""
Job = Iterator[set[Token]]


class Turns:
    """Runs jobs in the order given. A job yields the answers it waits for and goes on when all have come, or
    when the switches that owe them are gone."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._awaited: set[Token] = set()

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        self._go_on()

    def answered(self, token: Token) -> None:
        if token in self._awaited:
            self._awaited.discard(token)
            self._go_on()

    def gone(self, switch: int) -> None:
        """The switch will not answer: what it missed it gets when it comes back."""
        self._awaited = {token for token in self._awaited if token[0] != switch}
        self._go_on()

    def _go_on(self) -> None:
        while self._jobs and not self._awaited:
            try:
                self._awaited = next(self._jobs[0])
            except StopIteration:
                self._jobs.popleft()
