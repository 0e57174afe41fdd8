"""What `vagrant up` copies into its machine is what git has, and runs from there. No machine is started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm.project import PROJECT, git_names, vagrant_rsync

pytestmark = pytest.mark.skipif(
    not (PROJECT / ".git").exists(), reason="a source distribution, not a checkout"
)

MAIN = (
    "import railweave; from railweave.framework.cli import main; "
    "print(railweave.__file__); main(prog_name='railweave')"
)


def copied(source: Path, target: Path) -> set[str]:
    """Copy as vagrant does, between two folders, and return the names of files and links."""
    subprocess.run([*vagrant_rsync(source), f"{source}/", f"{target}/"], cwd=source, check=True, timeout=100)
    return {
        str(path.relative_to(target)) for path in target.rglob("*") if path.is_symlink() or not path.is_dir()
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this checkout as it lies here, with a decoy for each pattern of .gitignore: at the root, and
    in a folder of sources."""
    clone = tmp_path_factory.mktemp("checkout")
    for name in git_names():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, clone / name, follow_symlinks=False)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for words in (("init", "--quiet"), ("add", "--all", "--force")):
        subprocess.run(["git", *words], cwd=clone, env=environment, check=True, timeout=60)
    for pattern in (clone / ".gitignore").read_text().split():
        for folder in (clone, clone / "framework"):
            decoy = folder / pattern.strip("/").replace("*", "decoy") / "decoy.py"
            decoy.parent.mkdir(parents=True, exist_ok=True)
            decoy.touch()
    return clone


@pytest.fixture(scope="module")
def copy(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("copy")
    copied(checkout, target)
    return target


def railweave(copy: Path, *words: str, cwd: Path) -> str:
    """What the command prints when it is run from a copy, which goes before the installed package."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", MAIN, *words],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(copy / ".links")},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    origin, _, printed = done.stdout.partition("\n")
    assert Path(origin).is_relative_to(copy)
    return printed


def test_vagrant_copies_of_this_checkout_what_git_has(tmp_path: Path) -> None:
    assert copied(PROJECT, tmp_path) == git_names()


def test_vagrant_leaves_out_what_git_ignores_and_nothing_of_the_same_name(
    checkout: Path, tmp_path: Path
) -> None:
    names = copied(checkout, tmp_path)
    assert names == git_names(checkout)
    decoys = {name for name in names if name.endswith("/decoy.py")}
    at_root = ("build", "dist", "runs", ".links/man1")  # patterns that begin with a slash: gitignore(5)
    assert decoys == {f"framework/{folder}/decoy.py" for folder in at_root}


def test_a_run_is_computed_from_the_copy(copy: Path, tmp_path: Path) -> None:
    words = ("--engine", "fluid", "--domains", "2", "--rails", "2", "--fault", "none", "--iterations", "1")
    result = json.loads(railweave(copy, "run", *words, "--json", "-", cwd=tmp_path))
    assert result["fabric"]["gpus"] == 4


@pytest.mark.lab
@pytest.mark.untimed
def test_doctor_brings_its_lab_up_from_the_copy(copy: Path, tmp_path: Path) -> None:
    """The last step of `vagrant up`."""
    document = json.loads(railweave(copy, "doctor", "--json", cwd=tmp_path))
    assert {row["name"]: row["ok"] for row in document["findings"]}["lab"] is True
