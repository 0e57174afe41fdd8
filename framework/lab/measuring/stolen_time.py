"""Time that a hypervisor takes from this machine's processors, in which links stand still though they are
healthy."""

import os
from pathlib import Path

STEAL = 8
"""The column of a processor's line in /proc/stat (proc(5)), in ticks of 10 ms on most machines."""


class StolenTime:
    """Steal time of the processors, as the kernel counts it; none where it does not."""

    def __init__(self, path: Path = Path("/proc/stat")) -> None:
        self._path, self._tick_s = path, 1 / os.sysconf("SC_CLK_TCK")
        self._last = self._read()

    def since_last(self) -> float:
        """Seconds since the last call that the processor lost that lost most."""
        before, self._last = self._last, self._read()
        lost_ticks = (ticks - before.get(name, ticks) for name, ticks in self._last.items())
        return max(lost_ticks, default=0) * self._tick_s

    def _read(self) -> dict[bytes, int]:
        lines = (line.split() for line in self._path.read_bytes().split(b"intr", 1)[0].splitlines())
        return {line[0]: int(line[STEAL]) for line in lines if line[0] != b"cpu" and len(line) > STEAL}
