"""Which of Open vSwitch's datapaths a lab uses: the kernel's where this user may have it, else the userspace one."""

from __future__ import annotations

from railweave.framework.errors import LabError, MachineError
from railweave.framework.lab.namespaces import NetNamespace
from railweave.framework.lab.ovs import run, tool

KERNEL, USERSPACE = "kernel", "userspace"
DATAPATHS = ("auto", KERNEL, USERSPACE)
PROBE = "rw-probe"
MEND = "as root: modprobe openvswitch, where the kernel has it; the VM lab does (`vagrant up`)"


def refusal(namespace: NetNamespace) -> str:
    """Why this kernel makes no datapath for us, or nothing. Tried by making one; asking loads the module."""
    try:
        with namespace.entered():
            run([tool("ovs-dpctl"), "add-dp", PROBE])
            run([tool("ovs-dpctl"), "del-dp", PROBE])
    except LabError as error:
        if "does not exist" in str(error):
            return "this kernel has no module openvswitch, or may not load it"
        return f"the kernel makes no datapath for this user ({error})"
    return ""


def is_kernel(asked: str, namespace: NetNamespace) -> bool:
    """Whether the lab takes the kernel's datapath. `asked`: one of DATAPATHS. MachineError where it cannot be had."""
    if asked == USERSPACE:
        return False
    why = refusal(namespace)
    if why and asked == KERNEL:
        raise MachineError(
            f"engine.datapath is kernel, and {why}. {MEND[0].upper()}{MEND[1:]}; or leave it at auto."
        )
    return not why
