"""The hash by which a switch picks among equal next hops: one flow, one pick, whatever else is sent."""

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.addressing import ENTROPY_BASE, ROCE_PORT, ipv4
from railweave.framework.model.arrays import Int64, Marks, mixed

PORTS = ENTROPY_BASE << 16 | ROCE_PORT


class FlowHash:
    """Hashes the five-tuple of one flow of each pair (addresses, UDP, port ENTROPY_BASE + `queue_pair` to
    4791) at each switch.

    `seed` is the operator's; with `salted` every switch mixes its own number in, without it all switches pick
    alike, and a flow that took the first of two at one switch takes the first of two at the next:
    polarisation.
    """

    def __init__(self, fabric: Fabric, seed: int, salted: bool, queue_pair: int = 0) -> None:
        self._address = np.array([ipv4(fabric, gpu) for gpu in range(fabric.n_gpus)], np.uint64)
        key = mixed(np.array([seed], np.uint64))
        self._ports = mixed(np.array([PORTS + (queue_pair << 16)], np.uint64) ^ key)
        nodes = np.arange(1, fabric.n_nodes + 1, dtype=np.uint64)
        self._salt = mixed(nodes ^ key) if salted else np.zeros(fabric.n_nodes, np.uint64)

    def flows(self, src: Int64, dst: Int64) -> Marks:
        """(P,): what all switches see of each flow."""
        return mixed((self._address[src] << np.uint64(32) | self._address[dst]) ^ self._ports)

    def pick(self, flows: Marks, node: Int64, count: Int64) -> Int64:
        """(P,): the number of the next hop that `node` picks for each flow, of `count`."""
        return (mixed(flows ^ self._salt[node]) % count.astype(np.uint64)).astype(np.int64)
