"""Faults done to a lab: what each verb means here, and the way back."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.faults import ResolvedFault
from railweave.framework.lab import shaping
from railweave.framework.lab.children import Watch
from railweave.framework.lab.emulation import Emulation
from railweave.framework.lab.impairment import Impairment, script
from railweave.framework.lab.ovs import SWITCH, OvsShard, run, tool
from railweave.framework.model.arrays import Float, Int64


class Injury:
    """What has been done to the links and switches of one lab.

    `ended(shard, daemon)` gives what to call when that daemon ends; `tell(text)` takes what a user should read.
    """

    def __init__(
        self,
        lab: Emulation,
        watch: Watch,
        ended: Callable[[int, str], Callable[[], None]],
        tell: Callable[[str], None],
    ) -> None:
        self._lab, self._watch, self._ended, self._tell = lab, watch, ended, tell
        self._impaired: dict[int, Impairment] = {}
        self._killed: Counter[int] = Counter()

    def inject(self, fault: ResolvedFault, healthy_bps: Float, controller_pid: int | None) -> None:
        """Do it. `healthy_bps`: (n_links,) emulated rates of the fabric without faults.

        Raises MachineError where this kernel has no way to do it.
        """
        links = np.asarray(fault.links)
        match fault.verb:
            case "degrade":
                self.set_rates(links, healthy_bps[links] * float(fault.options["to"]))
            case "loss" | "reorder" | "duplicate" as kind:
                try:
                    self.impair(links, kind, float(fault.options["rate"]))
                except LabError as error:
                    raise MachineError(
                        f"{fault.text!r}: this kernel cannot {kind} packets ({error}). It needs nftables at the egress "
                        "of a device (Linux 5.16, CONFIG_NETFILTER_EGRESS, CONFIG_NFT_DUP_NETDEV, "
                        "CONFIG_NFT_FWD_NETDEV). Leave the fault out, or run in the VM lab (`vagrant up`)."
                    ) from None
            case "down":
                self.set_carrier(links, up=False)
            case "up":
                self.set_carrier(links, up=True)
            case "restore":
                self.set_rates(links, healthy_bps[links])
                self.heal(links)
                self.set_carrier(links, up=True)
            case "kill" if fault.process == "controller":
                if controller_pid is not None:  # it is being restarted: dead already
                    os.kill(controller_pid, signal.SIGKILL)
            case "kill":
                self._kill(self._shard_of(fault), back="back" in fault.options)
            case "start":
                self._start(self._shard_of(fault))
            case other:
                raise LabError(f"{fault.text!r}: the emulation cannot {other}.")

    # -- links -----------------------------------------------------------------------------------------
    def set_rates(self, links: Int64, rates_bps: Float) -> None:
        """Change the emulated rate of links (one rate per link given); waiting packets stay in their queues."""
        rates = self._lab.rates_bps.copy()
        rates[links] = rates_bps
        for shard, mine in self._lab.by_shard(links):
            changes = [(self._lab.interface(link), float(rates[link])) for link in mine]
            shaping.reshape(shard.namespace, changes)
            shaping.verify(shard.namespace, changes)
        self._lab.rates_bps = rates

    def set_carrier(self, links: Int64, up: bool) -> None:
        """Plug cables in or out; a cable is both directions."""
        state = "up" if up else "down"
        for shard, mine in self._lab.by_shard(links):
            lines = "".join(f"link set dev {self._lab.interface(link)} {state}\n" for link in mine)
            run([tool("ip"), "-n", shard.namespace.name, "-batch", "-"], given=lines)

    def impair(self, links: Int64, kind: str, share: float) -> None:
        """Lose (`loss`), `duplicate` or `reorder` this share of the packets of each link, at random; 0 ends it."""
        for link in links.tolist():
            self._impaired[link] = replace(self._impaired.get(link, Impairment()), **{kind: share})
        self._put_in_force(links)

    def heal(self, links: Int64) -> None:
        """End all that `impair` began."""
        hurt = np.array([link for link in links.tolist() if link in self._impaired], np.int64)
        for link in hurt.tolist():
            del self._impaired[link]
        self._put_in_force(hurt)

    def _put_in_force(self, links: Int64) -> None:
        """On links with a latency packets get lost and overtake on their way, by netem; else where they leave."""
        for shard, mine in self._lab.by_shard(links):
            rules, ways = "", []
            for link in mine:
                interface, late = self._lab.interface(link), float(self._lab.latency_s[link])
                now = self._impaired.get(link, Impairment())
                if late > 0:
                    ways.append((interface, late, now.loss, now.reorder))
                    now = replace(now, loss=0.0)
                rules += script(interface, now)
            if ways:
                shaping.travel(shard.namespace, ways)
            with shard.namespace.entered():
                run([tool("nft"), "-f", "-"], given=rules)

    # -- switches --------------------------------------------------------------------------------------
    def expected(self, shard: int, daemon: str) -> bool:
        """Whether the end of a daemon, now seen, was a kill that a start follows. Asked once for each end."""
        if daemon != SWITCH or not self._killed[shard]:
            return False
        self._killed[shard] -= 1
        return True

    def _shard_of(self, fault: ResolvedFault) -> OvsShard:
        return self._lab.shards[int(self._lab.placement[fault.node])]

    def _kill(self, shard: OvsShard, back: bool) -> None:
        if SWITCH in shard.pids:  # else another switch of the shard was killed, and it is dead already
            self._killed[shard.index] += back
            self._lab.kill(shard)

    def _start(self, shard: OvsShard) -> None:
        if SWITCH in shard.pids:
            return
        began = time.monotonic()
        kept = self._lab.revive(shard)
        self._watch.ending(shard.pids[SWITCH], self._ended(shard.index, SWITCH))
        took = f"{(time.monotonic() - began) * 1e3:.0f} ms"
        shapers = "its shapers are as they were" if kept else "its shapers were gone and are set again"
        self._tell(
            f"ovs-vswitchd of shard {shard.index} is back after {took}; {shapers}; its rules come next"
        )
