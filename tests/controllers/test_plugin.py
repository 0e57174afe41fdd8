"""The controllers on offer."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from railweave.controllers import plugin
from railweave.controllers.client import ControllerProcess
from railweave.controllers.packages import EXTRAS, PACKAGES
from railweave.framework.errors import NotInstalledError
from railweave.framework.registry import Registers

ROOT = Path(__file__).resolve().parents[2]


def test_every_library_is_offered() -> None:
    offered = Registers([("controllers", plugin)])["controller"]
    assert list(offered) == ["c65of", "os-ken", "ryu"]
    assert all(controller.summary for controller in offered.values())


def test_offering_them_imports_none() -> None:
    body = (
        "import sys, railweave.controllers.plugin;"
        "sys.exit(bool({'ryu', 'os_ken', 'c65of', 'eventlet'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", body], check=False).returncode == 0


def test_a_library_that_is_not_installed_is_refused_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "c65of", "a_package_that_nobody_has")
    with pytest.raises(
        NotInstalledError, match=r"a_package_that_nobody_has.*pip install 'railweave\[c65of\]'"
    ):
        ControllerProcess("c65of", "").configured({})


def test_every_library_has_an_extra_that_installs_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for library, extra in EXTRAS.items():
        assert any(re.match(rf"{library}\b", requirement) for requirement in extras[extra]), library
