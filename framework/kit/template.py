"""A new plugin: an installable package with one that works, tests that use the kit and a workflow that runs
them, a README and how to cite it."""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from railweave.framework.errors import InputError, PluginError
from railweave.framework.registry import PLURALS, PROTOCOLS, Registers

TEMPLATE = Path(__file__).parent / "template"
USES = {
    "router": "railweave run --router @NAME@",
    "topology": "railweave run --topology @NAME@ --router shortest --collective ring-all-reduce",
    "collective": "railweave run --collective @NAME@",
    "workload": "railweave run --workload @NAME@",
    "estimator": "railweave run --estimator @NAME@",
    "chooser": "railweave run --router spray --chooser @NAME@",
    "congestion-control": "railweave run --control @NAME@",
    "report": "railweave run                          # writes it into the run directory",
    "observer": "railweave run                          # writes into the run directory",
}
"""Kinds that have a template, and the command that uses what it makes."""


def files_of(kind: str) -> dict[str, str]:
    """Where each file of a kind's template goes."""
    return {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "CITATION.cff": "CITATION.cff",
        ".github/workflows/test.yml": "workflow.yml",
        "@MODULE@/__init__.py": "__init__.py",
        "@MODULE@/plugin.py": "observer_plugin.py" if kind == "observer" else "plugin.py",
        f"@MODULE@/{_file_of(kind)}.py": f"{_file_of(kind)}.py",
        "tests/conftest.py": "conftest.py",
        "tests/test_@MODULE@.py": "test_plugin.py",
    }


def new_plugin(kind: str, name: str, directory: Path, registers: Registers) -> tuple[Path, ...]:
    """Write the package of a plugin into `directory`, which must be new or empty; the files, in order.

    Raises PluginError for a name that is taken or that no package can have, InputError for the directory.
    """
    module = module_of(name)
    if kind in PROTOCOLS and name in registers[kind]:
        raise PluginError(f"{kind} {name!r} is taken by {registers[kind].holders[name]}. Give another name.")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise PluginError(f"a package {module!r} is installed already. Give another name than {name!r}.")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"{directory} is not an empty directory. Give another with --dir.")
    written = []
    try:
        for target, source in files_of(kind).items():
            path = directory / filled(target, kind, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(rendered(source, kind, name))
            written.append(path)
        typed = directory / module / "py.typed"
        typed.touch()
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error}. Give another with --dir.") from error
    return (*written, typed)


def module_of(name: str) -> str:
    """`my_router` of `my-router`. Raises PluginError for names that make no module."""
    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(module):
        raise PluginError(
            f"{name!r} cannot name a plugin: it takes small letters, digits and single hyphens, a letter "
            "first, such as my-router."
        )
    return module


def rendered(source: str, kind: str, name: str) -> str:
    """One file of the template for a plugin `name`."""
    return filled((TEMPLATE / f"{source}.in").read_text(), kind, name)


def filled(text: str, kind: str, name: str) -> str:
    module = module_of(name)
    words = {
        "@USE@": USES[kind],
        "@NAME@": name,
        "@MODULE@": module,
        "@CLASS@": class_of(name),
        "@KIND@": kind,
        "@FILE@": _file_of(kind),
        "@KINDS@": PLURALS.get(kind, ""),
        "@PROTOCOL@": PROTOCOLS[kind].__name__ if kind in PROTOCOLS else "",
        "@ARTICLE@": "An" if kind[0] in "eo" else "A",
        "@ENTRY@": f"{module}.plugin:plugin" if kind == "observer" else f"{module}.plugin",
    }
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def _file_of(kind: str) -> str:
    return kind.replace("-", "_")


def class_of(name: str) -> str:
    """`MyRouter` of `my-router`."""
    return "".join(part.capitalize() for part in name.split("-"))
