"""System programs: found, run, and their failures reported."""

from __future__ import annotations

import pytest

from railweave.framework.errors import LabError, MachineError
from railweave.framework.processes.openvswitch import VSCTL_EXIT_CODES
from railweave.framework.processes.programs import run, tool


def test_a_program_reads_its_standard_input_and_its_output_is_returned() -> None:
    assert run([tool("tr"), "a-z", "A-Z"], stdin="rail 1\n") == "RAIL 1\n"


def test_a_failure_carries_the_end_of_what_was_printed() -> None:
    with pytest.raises(LabError, match=r"^sh failed \(3\): no device r0$"):
        run([tool("sh"), "-c", "echo no device r0 >&2; exit 3"])


def test_the_exit_code_of_ovs_vsctl_for_a_port_that_failed_is_explained() -> None:
    """Open vSwitch 3.6 NEWS: ovs-vsctl exits with 65 (EX_DATAERR) if ovs-vswitchd cannot apply the change."""
    script = "echo \"ovs-vsctl: Error detected while setting up 'r0-1'\" >&2; exit 65"
    with pytest.raises(LabError, match=r"ovs-vswitchd could not set up a port.*setting up 'r0-1'"):
        run([tool("sh"), "-c", script], hints=VSCTL_EXIT_CODES)


def test_a_program_that_is_not_installed_is_named_with_its_fix() -> None:
    with pytest.raises(MachineError, match=r"no-such-program is not installed\. Run `make setup`"):
        tool("no-such-program")
