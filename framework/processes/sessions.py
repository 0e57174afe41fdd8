"""How sessions of processes are weighed against each other."""

from contextlib import suppress
from pathlib import Path


def weigh_session(pid: int, niceness: int) -> None:
    """Give the session of a process a niceness among sessions.

    Where the kernel groups processes by session (sched_autogroup_enabled, as Debian's and Ubuntu's do), a
    process's own niceness counts within its session only, and all sessions get the same. Does nothing where
    the kernel does not group, or refuses.
    """
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
