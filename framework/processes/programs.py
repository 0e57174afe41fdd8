"""System programs: where they are, and running one to its end."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from railweave.framework.errors import LabError, MachineError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def search_path() -> str:
    """PATH, and after it the system's folders: the PATH of an ordinary user may lack those that end in
    sbin."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def tool(name: str) -> str:
    """The path of a system program; MachineError if it is not installed."""
    path = shutil.which(name, path=search_path())
    if path is None:
        raise MachineError(
            f"{name} is not installed. Run `make setup`, or install the packages that .ci/provision.sh names."
        )
    return path


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    hints: Mapping[int, str] | None = None,
) -> str:
    """Run a program to its end and return what it printed.

    Raises LabError with the last lines it printed if it fails; `hints` explains exit codes of the program.
    """
    done = subprocess.run(
        list(command), input=stdin, env=environment, capture_output=True, text=True, timeout=timeout_s,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()[-5:]
        hint = (hints or {}).get(done.returncode)
        raise LabError(
            f"{Path(command[0]).name} failed ({hint or done.returncode}): {' | '.join(lines) or 'no output'}"
        )
    return done.stdout
