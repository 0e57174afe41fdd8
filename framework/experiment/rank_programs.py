"""Programs that ranks run in place of a collective: what a user may write, and the refusal of the rest."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.schema import Experiment
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Fabric, Schedule
from railweave.framework.processes.programs import search_path

OWN_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RAILWEAVE_MARKS",
    "RAILWEAVE_HOSTFILE",
)
"""What railweave itself sets in the environment of every rank."""
MPIRUN = "mpirun"
_NO_MPIRUN = (
    "mpi needs mpirun, which is not installed. Install Open MPI (Debian: apt-get install openmpi-bin), or "
    "take the launcher direct."
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NoCollective(Collective):
    """What stands in a plan for a program: nothing is scheduled, computed or compared."""

    kind = "program"
    summary = "a program"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        none, word, start = np.empty(0, np.int64), np.empty(0, np.int32), np.zeros(1, np.int64)
        arrays = (word, word, none, none, none, word, word, start, none)
        return Schedule("program", len(ranks), 0, dtype, "none", 0, *arrays)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        return [np.empty(0)] * schedule.n_ranks

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        return np.empty(0)


def words_of(value: object) -> tuple[str, ...]:
    """A command as the list of its words. Raises ExperimentError saying what is wrong."""
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ExperimentError(f"{value!r} cannot be split into words: {error}.") from None
    elif isinstance(value, list | tuple) and all(isinstance(word, str | int | float) for word in value):
        if odd := [word for word in value if isinstance(word, bool | float)]:
            raise ExperimentError(f"{odd[0]!r} can be written in several ways. Put that word in quotes.")
        words = [str(word) for word in value]
    else:
        raise ExperimentError(f"expects a command such as 'python train.py', or its words (got {value!r}).")
    if not words or not words[0]:
        raise ExperimentError("is empty. Give a command such as 'python train.py'.")
    if any("\0" in word for word in words):
        raise ExperimentError("holds a zero byte, which no program can be given.")
    return tuple(words)


def environment(request: Experiment) -> dict[str, str]:
    """What ranks inherit: this process's environment, with the experiment's NAME=VALUE."""
    pairs = (text.partition("=") for text in request.environment)
    variables = {name: value for name, equals, value in pairs if equals}
    return {**os.environ, "PATH": search_path(), **variables}


def problems(request: Experiment) -> Iterator[tuple[str, str]]:
    """(key, message) for everything that is wrong with the program of a request."""
    for text in request.environment:
        name, equals, _ = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            yield "environment", f"{text!r} is not NAME=VALUE."
        elif name in OWN_VARIABLES:
            yield "environment", f"{name} is what railweave tells every rank. Leave it out."
    directory, path = Path(request.directory), environment(request)["PATH"]
    if not directory.is_dir():
        yield "directory", f"{request.directory} is not a directory. Give one that exists."
    elif why := why_not_run(request.program[0], directory, path):
        yield "program", why
    if request.launcher == "mpi" and shutil.which(MPIRUN, path=path) is None:
        yield "launcher", _NO_MPIRUN


def why_not_run(command: str, directory: Path, path: str) -> str:
    """Why a command cannot be run in a directory; empty if it can."""
    if "/" not in command:
        if shutil.which(command, path=path) is not None:
            return ""
        here = (
            f" There is one in {directory}: give it as ./{command}." if (directory / command).exists() else ""
        )
        return f"{command} is not a program on PATH.{here or ' Check the name, or give its path.'}"
    file = directory / command
    if not file.exists():
        return f"{command}: there is no such file in {directory}. Check the path."
    if file.is_dir():
        return f"{command} is a directory, not a program."
    if not os.access(file, os.X_OK):
        return f"{command} is not executable. Make it so (chmod +x), or name its interpreter."
    return ""
