"""The controllers on offer."""

from __future__ import annotations

import subprocess
import sys

from railweave.controllers import plugin
from railweave.framework.registry import Registers


def test_both_libraries_are_offered() -> None:
    offered = Registers([("controllers", plugin)])["controller"]
    assert list(offered) == ["os-ken", "ryu"]
    assert all(offer.thing.summary for offer in offered.offers())


def test_offering_them_imports_neither() -> None:
    body = (
        "import sys, railweave.controllers.plugin;"
        "sys.exit(bool({'ryu', 'os_ken', 'eventlet'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", body], check=False).returncode == 0
