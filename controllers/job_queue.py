"""Jobs that wait for answers of switches, one after another, without a thread that blocks."""

from collections import deque
from collections.abc import Iterator

Token = tuple[int, int]
"""(datapath id, number of the request): one answer that a job waits for."""
Job = Iterator[set[Token]]


class JobQueue:
    """Runs jobs in order. A job yields the answers it waits for, and continues when all of them have come or
    the switches that owe them are gone."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._awaited: set[Token] = set()

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        self._advance()

    def answered(self, token: Token) -> None:
        if token in self._awaited:
            self._awaited.discard(token)
            self._advance()

    def gone(self, switch: int) -> None:
        """The switch will not answer; it is resynchronised when it comes back."""
        self._awaited = {token for token in self._awaited if token[0] != switch}
        self._advance()

    def _advance(self) -> None:
        while self._jobs and not self._awaited:
            try:
                self._awaited = next(self._jobs[0])
            except StopIteration:
                self._jobs.popleft()
