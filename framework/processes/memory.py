"""Memory of this machine, and what this process has had of it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def machine_bytes() -> int | None:
    """Main memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def peak_bytes() -> int | None:
    """The most that this process has had in memory at once; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def refused_beyond_memory() -> Iterator[None]:
    """In the block an allocation of more memory than is free raises MemoryError, where the system can do so;
    Linux would grant it and end some process later."""
    try:
        import resource

        free = [line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
        mine = [line.split()[1] for line in _lines("/proc/self/status") if line.startswith("VmSize:")]
        most = 1024 * (int(free[0]) + int(mine[0]))
    except (ImportError, OSError, IndexError, ValueError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = min(most, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY), most)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
