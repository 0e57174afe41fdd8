"""Marks of congestion (ECN): a switch sets CE on data that enters a long queue, by nftables at its egress.

Each level marks an eighth of the packets more than the one below. A map from interface to chain says at which
level each queue is; the process that samples queues rewrites it through an `nft` that stays open (0.5 ms for
20 interfaces, where a new process takes 8). Hosts mark nothing: NICs do not.
"""

import json
import subprocess
from collections.abc import Sequence
from typing import Self

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.experiment.ramp import LEVELS, Ramp
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.ovs import OvsShard
from railweave.framework.lab.switching.shaping import DATA, DEVICES_PER_CHAIN
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.processes.namespaces import inside
from railweave.framework.processes.programs import run, tool

Parts = Sequence[tuple[OvsShard, dict[int, str]]]
TABLE = "netdev marks"
BEHIND_FAULTS = 10
"""Priority of the marking chains: what a fault duplicates (priority 0) is marked on its own."""


def marking_links(fabric: Fabric) -> Bool:
    """(n_links,): those out of switches; all of a fabric whose GPUs are its switches."""
    out_of_switches: Bool = fabric.link_src >= fabric.n_gpus
    return out_of_switches if out_of_switches.any() else np.ones(fabric.n_links, bool)


class EcnMarker:
    """Marks at all links of a lab that mark. `follow`: by the process that samples, after `open`; `read`: by
    any."""

    by = "levels"

    def __init__(self, ramp: Ramp, parts: Parts, n_links: int) -> None:
        self.ramp, self._parts, self._n_links = ramp, parts, n_links
        self._editors: list[subprocess.Popen[bytes]] = []
        self._last = [np.zeros(len(interfaces), np.int64) for _, interfaces in parts]

    @classmethod
    def of(cls, lab: Emulation, ramp: Ramp) -> Self:
        """Load the rules into every shard. Raises MachineError where the kernel has none at an egress."""
        marking = np.flatnonzero(marking_links(lab.fabric))
        parts = [
            (shard, {link: lab.interfaces[link] for link in links}) for shard, links in lab.by_shard(marking)
        ]
        return cls.loaded(ramp, parts, lab.fabric.n_links)

    @classmethod
    def loaded(cls, ramp: Ramp, parts: Parts, n_links: int) -> Self:
        """The same for some interfaces of each shard, by link."""
        for shard, interfaces in parts:
            with shard.namespace.entered():
                try:
                    run([tool("nft"), "-f", "-"], stdin=_rules(interfaces))
                except LabError as error:
                    raise MachineError(
                        f"this kernel cannot mark packets: {error} It needs nftables at the egress of a "
                        "device (CONFIG_NETFILTER_EGRESS). Set `engine.marks` to off, or run in the VM lab."
                    ) from error
        return cls(ramp, parts, n_links)

    def open(self) -> None:
        """Start what changes the rules; it ends with this process, which need not have the descriptors of
        the one that made this."""
        for shard, _ in self._parts:
            with inside(shard.namespace.path):
                editor = subprocess.Popen(
                    [tool("nft"), "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0
                )
            self._editors.append(editor)

    def follow(self, queue_bytes: Float) -> None:
        """Mark from now on by these queues, (n_links,)."""
        for at, (editor, (_, interfaces)) in enumerate(zip(self._editors, self._parts, strict=True)):
            levels = self.ramp.levels(queue_bytes[list(interfaces)])
            if np.array_equal(levels, self._last[at]):
                continue
            self._last[at] = levels
            long = [(name, n) for name, n in zip(interfaces.values(), levels.tolist(), strict=True) if n]
            elements = ", ".join(f'"{name}" : jump p{level}' for name, level in long)
            added = f"; add element {TABLE} level {{ {elements} }}" if long else ""
            assert editor.stdin is not None
            editor.stdin.write(f"flush map {TABLE} level{added}\n".encode())

    def stop(self) -> None:
        """Mark nothing any more; for when what called `follow` has ended."""
        for shard, _ in self._parts:
            with shard.namespace.entered():
                run([tool("nft"), "-f", "-"], stdin=f"flush map {TABLE} level\n")

    def read(self) -> Float:
        """(n_links,): packets marked at each link so far; NaN of those that do not mark."""
        marked = np.full(self._n_links, np.nan)
        for shard, _ in self._parts:
            with shard.namespace.entered():
                listing = json.loads(run([tool("nft"), "-j", "list", "counters", "table", *TABLE.split()]))
            for entry in listing["nftables"]:
                if counter := entry.get("counter"):
                    marked[int(counter["name"][1:])] = counter["packets"]
        return marked


def _rules(interfaces: dict[int, str]) -> str:
    """The input of `nft -f`. `interfaces`: where each link leaves."""
    counters = "".join(f"counter l{link} {{ }}\n" for link in interfaces)
    counted = ", ".join(f'"{name}" : "l{link}"' for link, name in interfaces.items())
    rules = f"{counters}map level {{\ntype ifname : verdict\n}}\n"
    rules += f"map counted {{\ntype ifname : counter\nelements = {{ {counted} }}\n}}\n"
    for level in range(1, LEVELS + 1):
        some = f"numgen random mod {LEVELS} < {level} " if level < LEVELS else ""
        rules += f"chain p{level} {{\n{some}ip ecn set ce counter name oifname map @counted\n}}\n"
    names = [f'"{name}"' for name in interfaces.values()]
    for first in range(0, len(names), DEVICES_PER_CHAIN):
        devices = ", ".join(names[first : first + DEVICES_PER_CHAIN])
        hook = f"type filter hook egress devices = {{ {devices} }} priority {BEHIND_FAULTS}"
        rules += f"chain out{first} {{\n{hook}\n{DATA} ip ecn ect0 oifname vmap @level\n}}\n"
    return f"table {TABLE} {{\n{rules}}}\n"
