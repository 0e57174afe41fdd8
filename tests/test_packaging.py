"""What the distributions hold; the package runs from a wheel, from a clone, and for a type checker."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from railweave.framework.bench import checkout

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("framework", "plugins", "topologies", "controllers", "traffic")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINKS = {
    **{name: f"../../{name}" for name in FOLDERS},
    "bench": "../../tests/bench",
    "__init__.py": "../../framework/__init__.py",
    "py.typed": "../../framework/py.typed",
}


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, **environment},
    )


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
    text = (ROOT / "docs" / "dependencies.md").read_text().lower()
    for requirement in (*PROJECT["project"]["dependencies"], *itertools.chain.from_iterable(extras.values())):
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None and name[0].lower() in text, requirement


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_is_there(path: Path) -> None:
    """Scripts and files by their paths, and targets of the Makefile."""
    jobs = yaml.safe_load(path.read_text())["jobs"]
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    named = re.findall(r"(?:^|[\s/])(\.(?:ci|devcontainer)/[\w.-]+)", commands)
    assert [name for name in named if not (ROOT / name).exists()] == []
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {*re.findall(r"\bmake (\w[\w-]*)", commands)} <= {*targets}
    needed = [job.get("needs", []) for job in jobs.values()]
    assert {name for names in needed for name in ([names] if isinstance(names, str) else names)} <= {*jobs}


def test_the_import_package_is_links_to_the_folders() -> None:
    assert {path.name: str(path.readlink()) for path in (ROOT / ".links" / "railweave").iterdir()} == LINKS


def test_a_checkout_without_symbolic_links_is_repaired(tmp_path: Path) -> None:
    """git writes a link's target into a file there; an archiver may copy what the link points to."""
    package = tmp_path / ".links" / "railweave"
    package.mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name, target in LINKS.items():
        (package / target).resolve().parent.mkdir(exist_ok=True)
        if "." in name:
            (package / target).resolve().write_text("")
        else:
            (package / target).resolve().mkdir(parents=True, exist_ok=True)
        (package / name).write_text(target)
    (package / "plugins").unlink()
    (package / "plugins").mkdir()
    for _ in range(2):  # the second time changes nothing
        done = run(tmp_path / ".ci" / "links.sh", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert {path.name: str(path.readlink()) for path in package.iterdir()} == LINKS


@pytest.mark.parametrize("above", [True, False])
def test_the_clone_is_imported_from_any_folder(above: bool, tmp_path: Path) -> None:
    """Above a clone that is named railweave as well: the folder of that name must not hide the package."""
    if above:
        (tmp_path / "railweave" / "framework").mkdir(parents=True)
    code = "import railweave; from railweave.framework.cli import main; print(railweave.__file__)"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).resolve() == ROOT / "framework" / "__init__.py"


def test_mypy_reads_the_types_of_a_users_imports(tmp_path: Path) -> None:
    """mypy finds them through py.typed of the installed package, not through this project's settings."""
    (tmp_path / "user.py").write_text(
        "import railweave as rw\n"
        "from railweave.framework.model import Fabric\n"
        "fabric: Fabric = rw.topology('rail-only')\n"
        "gpus: str = fabric.n_gpus\n"
    )
    done = run(sys.executable, "-m", "mypy", "--strict", "user.py", cwd=tmp_path)
    assert done.stdout.splitlines()[0].startswith("user.py:4: error: Incompatible types"), done.stdout
    assert done.stdout.splitlines()[1].startswith("Found 1 error in 1 file")


def test_the_wheel_of_the_source_distribution_runs_by_itself(tmp_path: Path) -> None:
    """Both built, the wheel unpacked elsewhere, and run from there with the source tree out of sight."""
    source = tmp_path / "source"
    source.mkdir()
    for name in (
        ".ci",
        ".links",
        *FOLDERS,
        "tests",
        "docs",
        "examples",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "MANIFEST.in",
    ):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored, symlinks=True)
        else:
            shutil.copy(ROOT / name, source)
    written = run(sys.executable, source / ".ci" / "man.py", source / ".links" / "man1", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    build = ("-W", "ignore", "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(source))
    built = run(sys.executable, *build, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    (archive,), (wheel,) = tmp_path.glob("railweave-*.tar.gz"), tmp_path.glob("railweave-*.whl")
    with tarfile.open(archive) as sources:
        held = {name.partition("/")[2] for name in sources.getnames()}
    assert held >= {"tests/test_packaging.py", "docs/architecture.md", ".links/railweave/py.typed"}
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    on_disk = {path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    in_wheel = {path.relative_to(site / "railweave") for path in site.rglob("*.py")}
    assert in_wheel == {Path("__init__.py"), *on_disk}
    release = wheel.name.partition("-py")[0]
    assert {path.name for path in site.iterdir()} == {"railweave", f"{release}.dist-info", f"{release}.data"}
    manual = site / f"{release}.data" / "data" / "share" / "man" / "man1"
    assert {"railweave.1", "railweave-run.1"} < {path.name for path in manual.iterdir()}
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import railweave.framework as f; print(f.__file__); "
        "from railweave.framework.cli import main; main(['topo', 'show', 'rail-only'], prog_name='railweave')"
    )
    done = run(sys.executable, "-c", code, site, cwd=tmp_path, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(str(site)) and "rail-only" in done.stdout
    for words in (
        "bench health --quick --json",
        "bench packet",
        "bench fluid",
        "compare --engines emulation,fluid --all",
    ):
        refused = command(site, tmp_path, *words.split())
        assert refused.returncode == 2 and "in tests/bench/ of a checkout" in refused.stderr, refused.stderr
    listing = command(site, tmp_path, "bench", "--help")
    assert "  bring-up  " in listing.stdout and "  health  " not in listing.stdout, listing.stderr


def command(site: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command of the wheel unpacked in `site`; its plugins are those of its own metadata."""
    code = (
        "import sys; site = sys.argv.pop(1); "
        "sys.path[:] = [site, *(entry for entry in sys.path if '.links' not in entry)]; "
        "from railweave.framework.cli import main; main(prog_name='railweave')"
    )
    return run(sys.executable, "-c", code, site, *words, cwd=cwd, PYTHONPATH="")


def test_a_wheel_knows_every_benchmark_that_a_checkout_has_alone() -> None:
    """It has `fluid`, with few rows."""
    assert list(checkout.NAMES) == sorted(checkout.benchmarks().keys() - {"fluid"})


def test_the_benchmarks_of_a_checkout_are_found_from_any_folder(tmp_path: Path) -> None:
    railweave = Path(sys.executable).with_name("railweave")
    done = run(railweave, "bench", "health", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "--resume" in done.stdout, done.stderr
    code = "from railweave.bench import fluid; print(fluid.__file__)"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert Path(done.stdout.strip()).resolve() == ROOT / "tests" / "bench" / "fluid.py"
