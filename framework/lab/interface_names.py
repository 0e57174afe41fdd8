"""Names of hosts and interfaces in the lab. Linux limits interface names to 15 characters."""

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric

INTERFACE_LIMIT = 15
"""Characters (IFNAMSIZ - 1, linux/if.h)."""
HOST_PORT = 1
"""The port of a GPU's NIC switch that leads to its host."""


def host_name(fabric: Fabric, gpu: int) -> str:
    return "h" + ".".join(map(str, fabric.coordinates(gpu)))


def program_host_name(fabric: Fabric, gpu: int) -> str:
    """What programs call a host: many cut names at the dot."""
    return host_name(fabric, gpu).replace(".", "-")


def interface_name(node_name: str, port: int) -> str:
    """Mininet's own scheme, `g0.0-eth2`, checked against the kernel's limit."""
    name = f"{node_name}-eth{port}"
    if len(name) > INTERFACE_LIMIT:
        raise FabricError(
            f"interface {name} would have {len(name)} characters; Linux allows {INTERFACE_LIMIT}. "
            "Choose smaller dimensions, or shorter prefixes in a fabric file."
        )
    return name
