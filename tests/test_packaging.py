"""What the wheel holds is what the tree holds, and the command runs from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("framework", "plugins", "topologies", "controllers", "traffic")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_folder_is_in_the_wheel() -> None:
    on_disk = {
        "railweave." + ".".join(init.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for init in (ROOT / folder).rglob("__init__.py")
        if not any(part.startswith("_") for part in init.parent.relative_to(ROOT).parts)
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == on_disk


def test_every_plugin_module_has_its_entry_point() -> None:
    declared = set(PROJECT["project"]["entry-points"]["railweave"].values())
    modules = {
        "railweave." + ".".join(plugin.relative_to(ROOT).with_suffix("").parts)
        for folder in FOLDERS
        for plugin in (ROOT / folder).rglob("plugin.py")
        if not any(part.startswith("_") for part in plugin.relative_to(ROOT).parts)
        and plugin.parent.name != "cli"  # the command `railweave plugin`
    }
    assert declared == modules
    assert {e.value for e in entry_points(group="railweave")} >= declared, "install again: pip install -e ."


def test_every_dependency_is_justified() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["emu"], *extras["dev"]]
    text = (ROOT / "docs" / "dependencies.md").read_text().lower()
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None and name[0].lower() in text, requirement


def test_the_wheel_runs_by_itself(tmp_path: Path) -> None:
    """Built, unpacked elsewhere, and run from there with the source tree out of sight."""
    source = tmp_path / "source"
    aside = shutil.ignore_patterns(".git", ".venv", "runs", "build", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, ignore=aside, symlinks=True)
    build = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
    ]
    built = subprocess.run([*build, str(source)], capture_output=True, text=True, timeout=150, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("railweave-*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    names = {path.name for path in site.iterdir()}
    assert "railweave" in names and not names & set(FOLDERS), "one import name, and nobody else's"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.meta_path[:] = [f for f in sys.meta_path "
        "if 'editable' not in repr(f)]; import railweave.framework as f; print(f.__file__); "
        "from railweave.framework.cli import main; main(['topo', 'show', 'rail-only'], prog_name='railweave')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": ""}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(str(site)) and "rail-only" in done.stdout
