"""What a lab could leave on the machine: processes, interfaces, namespaces, mounts."""

import os
from pathlib import Path

MARK = "RAILWEAVE_MARK"
"""Set in the environment of the command; everything that a lab starts inherits it."""


def footprint(mark: str) -> set[str]:
    """Names of what exists now: other processes with this mark; all interfaces, namespaces and mounts. A run
    left behind what is in the footprint after it and not in the one before."""
    folders = {"interface": Path("/sys/class/net"), "namespace": Path("/run/netns")}
    entries = {f"{kind} {e.name}" for kind, path in folders.items() if path.is_dir() for e in path.iterdir()}
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return _processes(f"{MARK}={mark}".encode()) | entries | {f"mount {line.split()[4]}" for line in mounts}


def _processes(marked: bytes) -> set[str]:
    marked_processes = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or is another user's
            continue
        if marked in environment:
            marked_processes.add(f"process {entry.name} ({command[:60].strip()})")
    return marked_processes
