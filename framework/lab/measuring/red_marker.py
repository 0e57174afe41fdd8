"""Marks of congestion (ECN): the kernel's RED where it has it, or levels by nftables."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from railweave.framework.errors import MachineError
from railweave.framework.experiment.ramp import Ramp
from railweave.framework.lab.measuring.queue_counters import ShardQueues
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.marking import EcnMarker, marking_links
from railweave.framework.lab.switching.red import kernel_has_red
from railweave.framework.model.arrays import Float


class RedMarker:
    """Marks at all links of a lab that mark, by RED; the kernel does all of it. `shards`: their queues."""

    by = "red"

    def __init__(self, ramp: Ramp, shards: Sequence[ShardQueues], n_links: int) -> None:
        self.ramp, self._shards, self._n_links = ramp, shards, n_links

    @classmethod
    def of(cls, lab: Emulation, ramp: Ramp) -> Self:
        """Put RED into the queues of a lab that is shaped."""
        links = np.flatnonzero(marking_links(lab.fabric))
        lab.mark(links, ramp)
        shards = [
            ShardQueues(shard.namespace, {link: lab.interfaces[link] for link in mine})
            for shard, mine in lab.by_shard(links)
        ]
        return cls(ramp, shards, lab.fabric.n_links)

    def read(self) -> Float:
        """(n_links,): packets marked at each link so far, those that came marked and were to be marked again
        included; NaN of links that do not mark."""
        marked = np.full(self._n_links, np.nan)
        for shard in self._shards:
            for link, packets in shard.marked().items():
                marked[link] = packets
        return marked


Marker = EcnMarker | RedMarker


def marker_of(lab: Emulation, ramp: Ramp, marked_by: str) -> Marker:
    """What marks, as the option `marked_by` says. Raises MachineError where the kernel cannot."""
    unused = next(iter(lab.hosts.values()))  # the loopback of a shard carries OpenFlow
    red = marked_by != "levels" and kernel_has_red(unused)
    if marked_by == "red" and not red:
        raise MachineError(
            "this kernel has no RED that marks without dropping (Linux 5.7, CONFIG_NET_SCH_RED, "
            "CONFIG_NET_SCH_PRIO). Set `engine.marked_by` to levels, or run in the VM lab (`vagrant up`)."
        )
    return RedMarker.of(lab, ramp) if red else EcnMarker.of(lab, ramp)
