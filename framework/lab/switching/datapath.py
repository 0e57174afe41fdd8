"""Which datapath of Open vSwitch a lab uses: the kernel's where this user may create one, else the userspace
one."""

from railweave.framework.errors import LabError, MachineError
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.programs import run, tool

KERNEL, USERSPACE = "kernel", "userspace"
DATAPATHS = ("auto", KERNEL, USERSPACE)
PROBE = "rw-probe"
FIX = "as root: modprobe openvswitch, where the kernel has it; the VM lab does (`vagrant up`)"


def refusal(namespace: NetNamespace) -> str:
    """Why this kernel creates no datapath for us, "" if it does. Tried by creating one, which loads the
    module."""
    try:
        with namespace.entered():
            run([tool("ovs-dpctl"), "add-dp", PROBE])
            run([tool("ovs-dpctl"), "del-dp", PROBE])
    except LabError as error:
        if "does not exist" in str(error):
            return "this kernel has no module openvswitch, or may not load it"
        return f"the kernel creates no datapath for this user ({error})"
    return ""


def is_kernel(wanted: str, namespace: NetNamespace) -> bool:
    """Whether the lab uses the kernel datapath. `wanted`: one of DATAPATHS. MachineError where it is not
    available."""
    if wanted == USERSPACE:
        return False
    why = refusal(namespace)
    if why and wanted == KERNEL:
        raise MachineError(
            f"engine.datapath is kernel, and {why}. {FIX[0].upper()}{FIX[1:]}; or leave it at auto."
        )
    return not why
