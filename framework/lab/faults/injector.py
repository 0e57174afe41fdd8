"""Faults in a lab: what each verb does to links, switches and processes, and how it is undone."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.lab.faults.impairment import Impairment, script
from railweave.framework.lab.faults.wire_loss import ingress_script, lose
from railweave.framework.lab.switching import shaping
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.ovs import OvsShard
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.processes.event_loop import Watch
from railweave.framework.processes.openvswitch import SWITCH
from railweave.framework.processes.programs import run, tool


class Injector:
    """Injects faults into the links and switches of one lab and keeps track of them (runs/parts.py:
    FaultPlace).

    `controller_pid()`: the controller's process, None while there is none. `ended(shard, daemon)` returns the
    callback for the end of that daemon; `note(text)` receives what a user should read.
    """

    def __init__(
        self,
        lab: Emulation,
        watch: Watch,
        controller_pid: Callable[[], int | None],
        ended: Callable[[int, str], Callable[[], None]],
        note: Callable[[str], None],
    ) -> None:
        self._lab, self._watch, self._ended, self._note = lab, watch, ended, note
        self._controller_pid = controller_pid
        self._impaired: dict[int, Impairment] = {}
        self._arriving = {kind: np.ones(lab.fabric.n_links) for kind in ("loss", "corrupt")}
        self._killed: Counter[int] = Counter()

    @property
    def rates_bps(self) -> Float:
        """(n_links,): the present rate of every link."""
        return self._lab.rates_bps

    def inject(self, fault: ResolvedFault) -> None:
        """Inject it. Raises MachineError where this kernel cannot."""
        links, healthy_bps = np.asarray(fault.links), self._lab.scaled.capacity_bps
        match fault.verb:
            case "degrade":
                self.set_rates(links, healthy_bps[links] * float(fault.options["to"]))
            case "loss" | "corrupt" as kind if not fault.options.get("icrc"):
                self.lose(links, kind, float(fault.options["rate"]))
            case "corrupt" | "reorder" | "duplicate" as verb:
                field = "wrong_icrc" if verb == "corrupt" else verb
                try:
                    self.impair(links, field, float(fault.options["rate"]))
                except LabError as error:
                    raise MachineError(
                        f"{fault.text!r}: this kernel cannot {verb} packets ({error}). It needs nftables at "
                        "the egress of a device (Linux 5.16, CONFIG_NETFILTER_EGRESS, "
                        "CONFIG_NFT_DUP_NETDEV). Leave the fault out, or run in the VM lab (`vagrant up`)."
                    ) from None
            case "down" | "up" as state:
                self.set_carrier(links, up=state == "up")
            case "restore":
                self.set_rates(links, healthy_bps[links])
                self.heal(links)
                self.set_carrier(links, up=True)
            case "kill" if fault.process == "controller":
                if pid := self._controller_pid():  # else it is being restarted already
                    os.kill(pid, signal.SIGKILL)
            case "kill":
                shard = self._shard_of(fault)
                if SWITCH in shard.pids:  # else a fault at another switch of the shard has killed it
                    self._killed[shard.index] += "back" in fault.options
                    self._lab.kill(shard)
            case "start":
                self._start(self._shard_of(fault))
            case other:
                raise LabError(f"{fault.text!r}: the emulation cannot {other}.")

    # -- links -----------------------------------------------------------------------------------------
    def set_rates(self, links: Int64, rates_bps: Float) -> None:
        """Change the emulated rate of links (one rate per link); queued packets stay in their
        queues."""
        rates = self._lab.rates_bps.copy()
        rates[links] = rates_bps
        for shard, mine in self._lab.by_shard(links):
            changes = [(self._lab.interfaces[link], float(rates[link])) for link in mine]
            shaping.reshape(shard.namespace, changes)
            shaping.verify(shard.namespace, changes)
        self._lab.rates_bps = rates

    def set_carrier(self, links: Int64, up: bool) -> None:
        """Connect or disconnect cables, which affects both directions."""
        state = "up" if up else "down"
        for shard, mine in self._lab.by_shard(links):
            lines = "".join(f"link set dev {self._lab.interfaces[link]} {state}\n" for link in mine)
            run([tool("ip"), "-n", shard.namespace.name, "-batch", "-"], stdin=lines)

    def lose(self, links: Int64, kind: str, share: float) -> None:
        """Let this share of the packets of each link not arrive, at random, for `loss` or `corrupt`; 0 ends
        it."""
        self._arriving[kind][links] = 1 - share
        self._let_arrive(links)

    def _let_arrive(self, links: Int64) -> None:
        lost = 1 - self._arriving["loss"] * self._arriving["corrupt"]
        for shard, mine in self._lab.by_shard(links, far=True):
            rules = ""
            for link in mine:
                if (receiver := self._lab.receiver(link)) is not None:
                    lose(receiver, float(lost[link]))
                elif self._lab.kernel_datapath:
                    rules += ingress_script(self._lab.interfaces[link ^ 1], float(lost[link]))
            if rules:
                with shard.namespace.entered():
                    run([tool("nft"), "-f", "-"], stdin=rules)

    def impair(self, links: Int64, kind: str, share: float) -> None:
        """Impair this share of the packets of each link, at random; `kind`: a field of Impairment. 0 ends
        it."""
        for link in links.tolist():
            self._impaired[link] = replace(self._impaired.get(link, Impairment()), **{kind: share})
        self._put_in_force(links)

    def heal(self, links: Int64) -> None:
        """Undo `lose` and `impair` on these links."""
        lossy = links[self._arriving["loss"][links] * self._arriving["corrupt"][links] < 1]
        self._arriving["loss"][lossy] = self._arriving["corrupt"][lossy] = 1.0
        self._let_arrive(lossy)
        impaired = [link for link in links.tolist() if self._impaired.pop(link, None)]
        self._put_in_force(np.array(impaired, np.int64))

    def _put_in_force(self, links: Int64) -> None:
        """On links with a latency netem also reorders packets in flight, on others nftables as they wait."""
        for shard, mine in self._lab.by_shard(links):
            rules, delayed = "", []
            for link in mine:
                interface, now = self._lab.interfaces[link], self._impaired.get(link, Impairment())
                if (late := float(self._lab.scaled.latency_s[link])) > 0:
                    delayed.append((interface, late, now.reorder))
                rules += script(interface, now)
            if delayed:
                shaping.change_netem(shard.namespace, delayed)
            with shard.namespace.entered():
                run([tool("nft"), "-f", "-"], stdin=rules)

    # -- switches --------------------------------------------------------------------------------------
    def expected(self, shard: int, daemon: str) -> bool:
        """Whether the end of a daemon was a kill that a start follows. To be called once for each end."""
        if daemon != SWITCH or not self._killed[shard]:
            return False
        self._killed[shard] -= 1
        return True

    def _shard_of(self, fault: ResolvedFault) -> OvsShard:
        return self._lab.shards[int(self._lab.placement[fault.node])]

    def _start(self, shard: OvsShard) -> None:
        if SWITCH in shard.pids:
            return
        began = time.monotonic()
        kept = self._lab.revive(shard)
        self._let_arrive(np.flatnonzero(self._lab.placement[self._lab.fabric.link_dst] == shard.index))
        self._watch.ending(shard.pids[SWITCH], self._ended(shard.index, SWITCH))
        took_ms = (time.monotonic() - began) * 1e3
        shapers = "its shapers are unchanged" if kept else "its shapers were lost and are set again"
        self._note(
            f"ovs-vswitchd of shard {shard.index} is back after {took_ms:.0f} ms; {shapers}; "
            "its rules come next"
        )
