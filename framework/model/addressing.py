"""Addresses as functions of coordinates, so that two runs give the same rules.

IPv4 10.a.b.c holds a GPU's coordinates, one byte an axis: (domain, rail) is 10.domain.rail.0+1; rings split
their one number over two bytes. A rule that matches an axis is then an address mask.
"""

from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric
from railweave.framework.model.routes import MOST_PATHS

NETWORK = 10 << 24
"""10/8: addresses of GPUs are places in the fabric."""
ROCE_PORT = 4791
"""UDP port of RoCEv2 (IANA)."""
TRAIN_SINK, TRAIN_SEEN = 0xC0000202, 0xC0000203
"""Destinations of measuring trains (TEST-NET-1, RFC 5737: outside 10/8, so no route forwards them):
a switch drops those to the first, and sends those to the second to its controller where a rule says so."""
ENTROPY_BASE = (1 << 16) - MOST_PATHS
"""First UDP source port that RoCEv2 senders use for entropy; path i of a pair uses ENTROPY_BASE + i."""


def axis_bytes(fabric: Fabric) -> tuple[tuple[int, int], ...]:
    """For each GPU axis: (shift, mask) of its bits in the IPv4 address.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> axis_bytes(fabric)
    ((16, 255), (8, 255))
    """
    shape = fabric.groups[0].shape
    if len(shape) == 1:
        if shape[0] > 1 << 16:
            raise FabricError(f"{fabric.kind} of {shape[0]} GPUs: one axis can number 65536 at most.")
        return ((8, 0xFFFF),)
    if len(shape) > 3 or max(shape) > 256:
        raise FabricError(f"{fabric.kind} of shape {shape}: addresses hold three axes of 256 at most.")
    return tuple((16 - 8 * axis, 0xFF) for axis in range(len(shape)))


def ipv4(fabric: Fabric, gpu: int) -> int:
    """The GPU's address as a 32-bit integer.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> ipv4_text(ipv4(fabric, 3))
    '10.1.1.1'
    """
    places = zip(fabric.coordinates(gpu), axis_bytes(fabric), strict=True)
    return NETWORK + sum(coordinate << shift for coordinate, (shift, _) in places) + host_byte(fabric)


def host_byte(fabric: Fabric) -> int:
    """The last byte of an address where no axis takes it.

    >>> host_byte(rw.topology("rail-only")), host_byte(rw.topology("torus", shape="2x2x2"))
    (1, 0)
    """
    return 1 if len(fabric.groups[0].shape) < 3 else 0


def ipv4_text(address: int) -> str:
    """The address with dots.

    >>> ipv4_text(0x0A010001)
    '10.1.0.1'
    """
    return ".".join(str(address >> shift & 0xFF) for shift in (24, 16, 8, 0))


def mac_text(gpu: int) -> str:
    """A locally administered MAC that carries the GPU's id.

    >>> mac_text(258)
    '02:00:00:00:01:02'
    """
    return "02:00:" + ":".join(f"{gpu >> shift & 0xFF:02x}" for shift in (24, 16, 8, 0))


def dpid(node: int) -> int:
    """OpenFlow datapath id of a node's switch; 0 is not allowed, so ids are shifted by one.

    >>> dpid(0)
    1
    """
    return node + 1
