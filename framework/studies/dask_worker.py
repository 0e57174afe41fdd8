"""What a Dask worker does for a study: say its versions, place files, compute points."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from railweave.framework.registry import Registers, load_plugins
from railweave.framework.studies.computing import Row, Task, computed
from railweave.framework.studies.points import with_files
from railweave.framework.studies.version import code_version

_PLACES: dict[str, str] = {}
"""Files of the client, and where they are here."""


def versions() -> dict[str, str]:
    """What rows depend on: the code of railweave, its plugins, Python and numpy."""
    found = {"railweave (code)": code_version(), "python": ".".join(platform.python_version_tuple()[:2])}
    for entry in entry_points(group="railweave"):
        if entry.dist is not None and entry.dist.name != "railweave":
            found[f"plugin {entry.dist.name}"] = entry.dist.version
    return {**found, "numpy": version("numpy")}


def place(contents: Mapping[str, bytes], directory: str) -> None:
    """Write the files of a client below a directory of this worker's own."""
    for number, (name, content) in enumerate(sorted(contents.items())):
        path = Path(directory, "railweave", str(number), Path(name).name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        _PLACES[name] = str(path)


@cache
def _registers() -> Registers:
    return load_plugins()


def compute(task: Mapping[str, Any]) -> Row:
    """The row of a task, by the files that were placed here."""
    wanted = Task(**task)
    here = Task(wanted.id, with_files(wanted.base, _PLACES), with_files(wanted.over, _PLACES), wanted.written)
    return computed(here, _registers())
