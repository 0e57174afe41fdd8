"""A new plugin: an installable package with a router that works, tests that use the kit, and a README."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from railweave.framework.errors import InputError, PluginError
from railweave.framework.registry import Registers

TEMPLATE = Path(__file__).parent / "template"
FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "@MODULE@/__init__.py": "__init__.py",
    "@MODULE@/plugin.py": "plugin.py",
    "@MODULE@/router.py": "router.py",
    "tests/conftest.py": "conftest.py",
    "tests/test_@MODULE@.py": "test_router.py",
}
"""Where each file of the template goes."""


def new_plugin(name: str, directory: Path, registers: Registers) -> tuple[Path, ...]:
    """Write the package of router `name` into `directory`, which must be new or empty; the files, in order.

    Raises PluginError for a name that is taken or that no package can have, InputError for the directory.
    """
    module = module_of(name)
    if name in registers["router"]:
        holder = next(offer.holder for offer in registers["router"].offers() if offer.name == name)
        raise PluginError(f"router {name!r} is taken by {holder}. Give another name.")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise PluginError(f"a package {module!r} is installed already. Give another name than {name!r}.")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"{directory} is not an empty directory. Give another with --dir.")
    written = []
    try:
        for target, source in FILES.items():
            path = directory / filled(target, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(rendered(source, name))
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
            f"{name!r} cannot name a plugin: it takes small letters, digits and single hyphens, a letter first, "
            "such as my-router."
        )
    return module


def rendered(source: str, name: str) -> str:
    """One file of the template for a router `name`."""
    return filled((TEMPLATE / f"{source}.in").read_text(), name)


def filled(text: str, name: str) -> str:
    words = {"@NAME@": name, "@MODULE@": module_of(name), "@CLASS@": class_of(name)}
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text


def class_of(name: str) -> str:
    """`MyRouter` of `my-router`."""
    return "".join(part.capitalize() for part in name.split("-"))
