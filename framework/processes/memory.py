"""Memory of this machine, and what processes have of it."""

import os
import sys
import threading
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


def pss_bytes(process: str = "self") -> int:
    """Proportional set size of a process by its id, in which shared pages count once; 0 for one that has
    ended."""
    try:
        lines = Path("/proc", process, "smaps_rollup").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def total_pss_bytes() -> int:
    """Sum over every process that this one can see: inside a lab, the lab's whole process tree."""
    return sum(pss_bytes(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


@contextmanager
def refused_beyond_memory() -> Iterator[None]:
    """In the block an allocation of more memory than is free raises MemoryError, where the system can do so;
    Linux would grant it and end some process later. The limit is the process's, so only the main thread sets
    it."""
    most = _allowed_bytes() if threading.current_thread() is threading.main_thread() else None
    if most is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _allowed_bytes() -> int | None:
    """What this process has mapped, and what is free; None where the system does not say."""
    try:
        import resource  # noqa: F401 - Windows has no limits

        free = _figure("/proc/meminfo", "MemAvailable:")
        return free + _figure("/proc/self/status", "VmSize:")
    except (ImportError, OSError, StopIteration):
        return None


def _figure(path: str, name: str) -> int:
    """Bytes, of a line such as `VmSize:  56956 kB`."""
    lines = Path(path).read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
