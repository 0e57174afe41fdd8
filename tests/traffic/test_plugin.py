"""What the traffic folder offers, and what offering it costs."""

from __future__ import annotations

import subprocess
import sys

from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.traffic import plugin


def test_it_offers_its_collectives_and_its_transport() -> None:
    registers = Registers([("traffic", plugin)])
    assert {"all-reduce", "ring-all-reduce"} <= set(registers["collective"])
    assert "rocev2" in registers["transport"]
    for register in ("collective", "transport"):
        for name, registered in registers[register].items():
            assert registered.summary
            assert registered.configured(resolve(name, registered.parameters, {})) is not None
    assert registers["collective"]["all-reduce"].kind == "all-reduce"


def test_loading_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, railweave.traffic.plugin; "
        "print([name for name in ('scapy', 'mininet', 'ryu', 'isal') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
