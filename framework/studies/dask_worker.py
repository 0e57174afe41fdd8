"""What a Dask worker does for a study: say its versions, place files, compute points."""

import os
import platform
import time
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from railweave.framework.errors import MachineError
from railweave.framework.registry import FILES, load_plugins, plugin_file
from railweave.framework.results.directory import write_whole
from railweave.framework.studies.computing import Row, Task, computed
from railweave.framework.studies.points import with_files
from railweave.framework.studies.version import code_version


def versions() -> dict[str, str]:
    """What rows depend on: the code of railweave, its plugins, Python and numpy."""
    by_name = {"railweave (code)": code_version(), "python": ".".join(platform.python_version_tuple()[:2])}
    for entry in entry_points(group="railweave"):
        if entry.dist is not None and entry.dist.name != "railweave":
            by_name[f"plugin {entry.dist.name}"] = entry.dist.version
    for name in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        file, _ = plugin_file(name)
        by_name[f"plugin file {file.name}"] = (
            sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else ""
        )
    return {**by_name, "numpy": version("numpy")}


def place_of(content: bytes, name: str) -> str:
    """Where a worker keeps a file, below its directory: by what is in it, since several clients may have
    files of one name."""
    return f"railweave/{sha256(content).hexdigest()}/{Path(name).name}"


def place(content: bytes, path: Path) -> None:
    """Write a file of a client, unless it is there."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


_registers, _versions = cache(load_plugins), cache(versions)


def compute(
    tasks: Sequence[Mapping[str, Any]], files: Mapping[str, str], wanted: Mapping[str, str], enough_s: float
) -> list[Row]:
    """The rows of the first tasks, at least one, and no more once they took `enough_s`. `files`: where those
    of the client are, by their names. Raises MachineError where versions here are not as `wanted`."""
    if _versions() != wanted:
        raise MachineError("a Dask worker came that has other versions of something than the client.")
    from distributed import get_worker

    here = Path(get_worker().local_directory)
    places = {name: str(here / place) for name, place in files.items()}
    rows, began_s = list[Row](), time.monotonic()
    for task in tasks:
        moved = {key: with_files(task[key], places) for key in ("base", "over")}
        rows.append(computed(Task(**{**task, **moved}), _registers()))
        if time.monotonic() - began_s >= enough_s:
            break
    return rows
