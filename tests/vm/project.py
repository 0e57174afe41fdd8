"""The project's folder as git and as its Vagrantfile have it; no machine is needed for either."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]
ADDED_BY_VAGRANT = ".vagrant/"
"""What vagrant excludes before what the Vagrantfile names (plugins/synced_folders/rsync/helper.rb)."""


def box_name(folder: Path = PROJECT) -> str:
    """What the Vagrantfile calls its box."""
    return _only(r'^\s*config\.vm\.box\s*=\s*"([^"]+)"', folder)


def vagrant_rsync(folder: Path = PROJECT) -> list[str]:
    """The rsync command by which vagrant copies that folder, without source and target.

    It has to run in the folder, as vagrant runs it: names of files in it are relative.
    """
    arguments, excludes = (json.loads(_only(rf"\brsync__{key}:\s*(\[[^\]]*\])", folder)) for key in
                           ("args", "exclude"))  # fmt: skip
    return ["rsync", *arguments, *(f"--exclude={pattern}" for pattern in (ADDED_BY_VAGRANT, *excludes))]


def git_names(folder: Path = PROJECT) -> set[str]:
    """The files and links in that folder which git tracks, and those it could add: what no .gitignore names.

    A user's own list of what to ignore does not count.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-per-directory=.gitignore"],
        cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    # a file that is tracked may have been removed; a repository in this one ends with a slash
    return {name for name in listed.split("\0")[:-1] if name[-1] != "/" and os.path.lexists(folder / name)}


def _only(pattern: str, folder: Path) -> str:
    """The one place in the Vagrantfile that matches; ValueError for none or several."""
    matches = re.findall(pattern, (folder / "Vagrantfile").read_text(), re.MULTILINE)
    if len(matches) != 1:
        raise ValueError(f"the Vagrantfile has {len(matches)} places that match {pattern}, not one")
    return str(matches[0])
