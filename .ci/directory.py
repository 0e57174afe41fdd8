"""The directory of plugins, plugins/directory.yaml: `python .ci/directory.py page|check|packages`.

`page` writes docs/directory.md; `check` runs `railweave plugin check` of this interpreter's environment on
every entry, each in a process of its own, as plugins are code of others; `packages` prints what pip has to
install first. Exit code 1 if an entry fails its checks, 2 if the file is wrong.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

ROOT = Path(__file__).resolve().parents[1]
LIST, PAGE = ROOT / "plugins" / "directory.yaml", ROOT / "docs" / "directory.md"
KINDS = (
    *("router", "topology", "collective", "workload", "estimator", "chooser", "congestion-control"),
    *("report", "observer", "engine"),
)
"""What `railweave plugin check` has checks of; a test compares it with the registers."""
LONGEST_S = 300
"""A check that takes longer is a failure: all entries are checked one after the other."""
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_REQUIREMENT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[\w,-]+\])?([<>=!~]=?[\w.*,<>=!~]+)?")


class DirectoryError(Exception):
    """The file is wrong: the entry, the reason, the fix."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A plugin: registered as `name`; of `file`, from the top of the repository, or of `package`, for pip."""

    name: str
    kind: str
    source: str
    about: str
    file: str = ""
    package: str = ""
    fabrics: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """That checks it, from the top of the repository."""
        words = ["plugin", "check", self.name, "--kind", self.kind]
        words += ["--plugin", self.file] if self.file else []
        words += ["--no-scale"] if self.kind == "router" else []
        return words + [word for fabric in self.fabrics for word in ("--topology", fabric)]


def entries(path: Path = LIST) -> list[Entry]:
    """Those of the file, in its order. Raises DirectoryError."""
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DirectoryError(f"{path}: {error}") from error
    if not isinstance(document, dict) or document.keys() != {"plugins"}:
        raise DirectoryError(f"{path}: it needs one key, plugins, a list of entries.")
    if not isinstance(document["plugins"], list):
        raise DirectoryError(f"{path}: plugins is {document['plugins']!r}. It needs a list of entries.")
    listed: dict[tuple[str, str], int] = {}
    found = []
    for number, raw in enumerate(document["plugins"], start=1):
        entry = _entry(f"{path}: entry {number}", raw)
        other = listed.setdefault((entry.kind, entry.name), number)
        if other != number:
            raise DirectoryError(
                f"{path}: entry {number} ({entry.name}): entry {other} has this kind and name. Leave one out."
            )
        found.append(entry)
    return found


def _entry(where: str, raw: object) -> Entry:
    if not isinstance(raw, dict):
        raise DirectoryError(f"{where}: {raw!r} is no mapping. Write name: ..., kind: ... and so on.")
    where += f" ({raw['name']})" if raw.get("name") else ""
    keys = Entry.__slots__
    for key, value in raw.items():
        if key not in keys:
            raise DirectoryError(f"{where}: there is no key {key!r}. The keys are {', '.join(keys)}.")
        if key == "fabrics":
            if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
                raise DirectoryError(f"{where}: fabrics is {value!r}. Write a list, such as [fat-tree].")
        elif not isinstance(value, str) or not value.strip() or "\n" in value.strip() or "|" in value:
            raise DirectoryError(f"{where}: {key} is {value!r}. Write one line of text without '|'.")
    for key in ("name", "kind", "source", "about"):
        if key not in raw:
            raise DirectoryError(f"{where}: {key} is missing. Add it.")
    entry = Entry(**{key: tuple(value) if key == "fabrics" else value.strip() for key, value in raw.items()})
    _check(where, entry)
    return entry


def _check(where: str, entry: Entry) -> None:
    """Values by themselves and with each other; these become words of a command."""
    if not _NAME.fullmatch(entry.name):
        raise DirectoryError(f"{where}: name is {entry.name!r}. Use small letters, digits and hyphens.")
    if entry.kind not in KINDS:
        raise DirectoryError(f"{where}: kind is {entry.kind!r}. The kinds are {', '.join(KINDS)}.")
    if bool(entry.file) == bool(entry.package):
        raise DirectoryError(f"{where}: it needs either file or package. Write one of them.")
    if entry.package and not _REQUIREMENT.fullmatch(entry.package):
        raise DirectoryError(
            f"{where}: package is {entry.package!r}. Write a requirement, such as railweave-mine>=1.0."
        )
    path = (ROOT / entry.file).resolve()
    if entry.file and not (path.is_relative_to(ROOT) and path.suffix == ".py" and path.is_file()):
        raise DirectoryError(f"{where}: file is {entry.file!r}. Name a Python file of this repository.")
    if not entry.about.endswith(".") or len(entry.about) > 120:
        raise DirectoryError(
            f"{where}: about is {entry.about!r}. Write one sentence of at most 120 characters."
        )
    for fabric in entry.fabrics:
        name, _, file = fabric.partition(":")
        if not _NAME.fullmatch(name) or (file and not (ROOT / file).is_file()):
            raise DirectoryError(f"{where}: fabrics has {fabric!r}. Write a topology, or file:FABRIC.yaml.")


def page(listed: list[Entry]) -> str:
    """docs/directory.md."""
    rows = "".join(
        f"| `{e.name}` | {e.kind} | {_where(e)} | {e.about} | {e.source} |\n"
        for e in sorted(listed, key=lambda e: (KINDS.index(e.kind), e.name))
    )
    return f"""\
# Directory of plugins

Plugins outside the built-in ones, which pass `railweave plugin check`. A file is used by `--plugin FILE`,
a package after `pip install` ([plugins.md](plugins.md)).

| name | kind | where | what it does | source |
|---|---|---|---|---|
{rows}
The list is `plugins/directory.yaml`: add a plugin there by a pull request and run `make directory`, which
makes this page and checks every entry.
"""


def _where(entry: Entry) -> str:
    if entry.file:
        return f"[{entry.file}](../{entry.file})"
    name = re.split(r"[\[<>=!~]", entry.package)[0]
    return f"[`{entry.package}`](https://pypi.org/project/{name}/)"


def check(listed: list[Entry], command: Path) -> list[Entry]:
    """Those that fail, after what their checks print. `command`: the railweave to check them with."""
    environment = {name: value for name, value in os.environ.items() if name != "RAILWEAVE_PLUGINS"}
    failed = []
    for entry in listed:
        click.echo(f"## {entry.kind} {entry.name}")
        try:
            words = [str(command), *entry.command()]
            code = subprocess.run(words, cwd=ROOT, env=environment, check=False, timeout=LONGEST_S).returncode
        except subprocess.TimeoutExpired:
            click.echo(
                f"{entry.name}: it takes longer than {LONGEST_S} s. Name small fabrics under `fabrics`."
            )
            code = 1
        if code:
            failed.append(entry)
    return failed


def main(words: list[str]) -> int:
    """The exit code."""
    if words not in (["page"], ["check"], ["packages"]):
        click.echo("usage: python .ci/directory.py page|check|packages", err=True)
        return 2
    try:
        listed = entries()
    except DirectoryError as error:
        click.echo(str(error), err=True)
        return 2
    match words:
        case ["page"]:
            PAGE.write_text(page(listed))
        case ["packages"]:
            click.echo("\n".join(entry.package for entry in listed if entry.package))
        case ["check"]:
            failed = check(listed, Path(sys.executable).with_name("railweave"))
            names = ", ".join(f"{entry.kind} {entry.name}" for entry in failed)
            click.echo(f"{len(listed) - len(failed)} of {len(listed)} pass" + f"; not {names}" * bool(failed))
            return 1 if failed else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
