"""What the ranks of a program print, through named pipes: kept in files of limited size, and shown live."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 64 << 20
"""Bytes of a rank's output that its file keeps, the first."""
TAIL_BYTES = 64 << 10
"""Bytes of a rank's output that are kept in memory, the last, for messages."""
SHOWN_BYTES_A_SECOND = 64 << 10
"""Bytes a second of all ranks together that are shown live."""
_READ_BYTES = 1 << 16
"""Bytes of one read: a pipe holds as many."""
_READS = 16
"""Reads of one pipe in a turn, so that a rank that prints without end leaves the others theirs."""


class Fifo:
    """A named pipe that this process reads, and which therefore never closes."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        path.chmod(0o666)
        self.path, self._fd = path, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def opened(self) -> int:
        """A descriptor to write to, which blocks while the pipe is full."""
        return os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)

    def read(self, reads: int = _READS) -> bytes:
        """What is there, up to `reads` x 64 KiB."""
        parts = []
        with suppress(BlockingIOError):
            for _ in range(reads):
                parts.append(os.read(self._fd, _READ_BYTES))
        return b"".join(parts)


class ShowBudget:
    """How many bytes may still be shown live in this second."""

    def __init__(self) -> None:
        self._second, self._left = 0, 0

    def take(self, size: int) -> bool:
        if (second := int(time.monotonic())) != self._second:
            self._second, self._left = second, SHOWN_BYTES_A_SECOND
        self._left -= size
        return self._left >= 0


class RankOutput:
    """What one rank prints. `file`: where up to `MOST_BYTES` of it go, None: nowhere. `printed`: bytes so
    far; `tail`: the last `TAIL_BYTES` of them."""

    def __init__(self, fifo: Fifo, file: Path | None, budget: ShowBudget) -> None:
        self.fifo, self.printed = fifo, 0
        self._file: BinaryIO | None = None if file is None else file.open("wb", buffering=0)
        self._tail, self._line, self._budget = bytearray(), b"", budget

    @property
    def tail(self) -> str:
        cut = f"[{self.printed - len(self._tail)} bytes left out]\n" if self.printed > len(self._tail) else ""
        return cut + self._tail.decode(errors="replace")

    def take(self) -> str:
        """Read what was printed; the whole lines of it that may be shown live."""
        data = self.fifo.read()
        self._keep(data)
        self._tail += data
        del self._tail[:-TAIL_BYTES]
        lines, newline, self._line = (self._line + data).rpartition(b"\n")
        del data
        if not newline:
            lines, self._line = (self._line, b"") if len(self._line) > _READ_BYTES else (b"", self._line)
        return lines.decode(errors="replace") if lines and self._budget.take(len(lines)) else ""

    def finish(self) -> str:
        """Read all that is left; the lines that may be shown live."""
        shown = []
        while True:
            before = self.printed
            shown.append(self.take())
            if self.printed == before:
                break
        shown.append(self._line.decode(errors="replace"))
        self._line = b""
        if self._file is not None:
            self._file.close()
            self._file = None
        return "\n".join(text for text in shown if text)

    def last_lines(self, lines: int) -> list[str]:
        return self._tail.decode(errors="replace").splitlines()[-lines:]

    def _keep(self, data: bytes) -> None:
        room, self.printed = MOST_BYTES - self.printed, self.printed + len(data)
        if self._file is None or room <= 0:
            return
        self._file.write(data[:room])
        if len(data) >= room:
            self._file.write(f"\n[railweave: cut here, after {MOST_BYTES >> 20} MiB]\n".encode())
