"""How a program is started by Open MPI's mpirun: its settings, and the shell that wraps every rank."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from railweave.framework.lab.programs import agent
from railweave.framework.lab.programs.rank_space import User

AGENT, AGENTS, ENDED, HOSTFILE = "agent", "agents", "ended", "hostfile"
"""Files in the folder of a program."""
_SHELL = f"""
export RANK=$OMPI_COMM_WORLD_RANK NODE_RANK=$OMPI_COMM_WORLD_RANK
export RAILWEAVE_MARKS=$0/$RANK.marks
"$@" >$0/$RANK.out 2>&1 </dev/null
status=$?
echo "$RANK $status" >$0/{ENDED}
exit $status
"""


def write_agent(folder: Path) -> None:
    """The program that mpirun runs in place of ssh."""
    words = [sys.executable, "-I", "-S", str(Path(agent.__file__)), str(folder / AGENTS)]
    (folder / AGENT).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    (folder / AGENT).chmod(0o755)


def mpi_command(command: Sequence[str], n_ranks: int, folder: Path) -> list[str]:
    """What starts the program on every host of the host file, one rank each."""
    return ["mpirun", "-np", str(n_ranks), "/bin/sh", "-c", _SHELL, str(folder), *command]


def mpi_environment(user: User, folder: Path) -> dict[str, str]:
    """Open MPI's settings: TCP over the fabric alone, no ssh, and processors left to the switches."""
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": str(folder / AGENT),
        "plm_rsh_no_tree_spawn": "1",
        "orte_tmpdir_base": "/dev/shm",  # hosts share /tmp, with each other and with those of other labs
        "orte_leave_session_attached": "1",  # daemons that detach would end with the agent's command
        "btl": "tcp,self",
        "pml": "ob1",
        "btl_tcp_if_include": "10.0.0.0/8",
        "oob_tcp_if_include": "10.0.0.0/8",
        "orte_default_hostfile": str(folder / HOSTFILE),
        "hwloc_base_binding_policy": "none",
        "mpi_yield_when_idle": "1",
    }
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {
        **{f"OMPI_MCA_{name}": value for name, value in settings.items()},
        **(root if user.uid == 0 else {}),
    }
