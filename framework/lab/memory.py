"""Memory of processes: proportional set size, in which shared pages count once."""

from pathlib import Path


def pss_bytes(process: str = "self") -> int:
    """PSS of a process by its id; 0 if it has ended, or is a zombie without memory."""
    try:
        lines = Path("/proc", process, "smaps_rollup").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def total_pss_bytes() -> int:
    """Sum over every process that this one can see: inside a lab, the lab's whole process tree."""
    return sum(pss_bytes(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
