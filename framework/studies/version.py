"""Which railweave computed a row: its code, whatever the version number says."""

import os
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from railweave.framework.registry import FILES, plugin_file

PARTS = ("controllers", "framework", "plugins", "topologies", "traffic")


@cache
def code_version(*more: str, elsewhere: tuple[str, ...] = ()) -> str:
    """Twelve digits that differ where any module of railweave or its folders `more` does, but for those in
    folders `elsewhere`, such as "plugins/fluid";
    plugins of one file count. Documentation does not."""
    spec, digest = find_spec("railweave"), sha256()
    assert spec is not None and spec.submodule_search_locations is not None
    (root,) = spec.submodule_search_locations
    for name in sorted((*PARTS, *more)):
        package = Path(root, name).resolve()
        for file in sorted(package.rglob("*.py")):
            path = f"{name}/{file.relative_to(package)}"
            if path.startswith(tuple(f"{folder}/" for folder in elsewhere)):
                continue
            digest.update(f"{path}\n".encode())
            digest.update(file.read_bytes())
    for name in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        file, _ = plugin_file(name)
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()[:12]
