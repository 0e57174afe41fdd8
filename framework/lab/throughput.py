"""Payload of the whole lab per second: the transport against bare senders, through the same switches, by turns.

Every GPU sends to the next one. Links are shaped to their declared rates (400 Gb/s and above), which this machine does
not come near: what binds is its switches, and the CPU that they share with whoever sends.
"""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from railweave.framework.channel import Channel
from railweave.framework.errors import InputError, LabError
from railweave.framework.experiment import Plan, from_document, load
from railweave.framework.lab.bare import PORTS, RECEIVED, BareSender, Trial
from railweave.framework.lab.conductor import Conductor
from railweave.framework.lab.iperf import Iperf
from railweave.framework.lab.ovs import SYSTEM_PATH
from railweave.framework.lab.plugin import in_lab
from railweave.framework.registry import Registers
from railweave.framework.registry import load as load_registers

ASKED = 0.85
"""The transport's part of the best bare sender's payload that is asked for."""

WINDOW = 256
"""Packets in flight per pair. The default, 64, is for shaped links: here more of them fill the switch's batches."""

FIRST_PPS = 10_000.0
COARSE, FINE = 1.5, 1.15
LADDER_S = 0.3
WORSE = 0.97
WITHIN_S = 60.0
LEAST_BYTES, MOST_BYTES = 1 << 20, 16 << 20
"""Bounds of one rank's message. All ranks' buffers, inputs and outputs are four times as much in all."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Payload bytes that arrived, in so many seconds, and CPU seconds of the sender (both ends) and the switches."""

    payload_bytes: float
    seconds: float
    cpu_s: float
    switch_cpu_s: float

    @property
    def rate(self) -> float:
        """Payload bytes per second."""
        return self.payload_bytes / self.seconds


@dataclass
class Climber:
    """Looks for the load at which most arrives: three loads a turn, the next turn around the best of them."""

    run: Callable[[float], Turn]
    pps: float
    turns: list[Turn] = field(default_factory=list)

    def climb(self) -> float:
        """From `pps` upwards in coarse steps until less arrives twice in a row; the best rate found."""
        best, worse, pps = 0.0, 0, self.pps
        while worse < 2:
            rate = self.run(pps).rate
            worse = worse + 1 if rate < WORSE * best or rate == 0 else 0
            if rate > best:
                best, self.pps = rate, pps
            pps *= COARSE
        return best

    def turn(self) -> Turn:
        """The best of three loads; it is kept, and the next turn starts there."""
        loads = (self.pps / FINE, self.pps, self.pps * FINE)
        tried = [(self.run(pps), pps) for pps in loads]
        best, pps = max(tried, key=lambda row: row[0].rate)
        if best.rate > 0:  # a turn in which nothing got through says nothing
            self.pps = pps
            self.turns.append(best)
        return best


class Contest:
    """One lab, and the senders that take turns in it."""

    def __init__(self, conductor: Conductor, seconds: float) -> None:
        self._conductor, self._seconds = conductor, seconds
        self._payload = conductor.plan.packet.path_mtu
        self._iterations = 0
        self.transport: list[Turn] = []
        self.bare_sender: BareSender | None = None
        self.iperf: Iperf | None = None
        self.climbers: dict[str, Climber] = {}

    def open(self) -> None:
        """Bring the lab up, and give messages a size that fills a turn."""
        self._conductor.bring_up()
        self._conductor.start_clock()
        self._iterate()  # opens the queue pairs
        self._size(self._iterate().rate)
        self._iterate()

    def challenge(self, *, with_iperf: bool) -> None:
        """Open the bare senders and find each one's best load."""
        conductor = self._conductor
        ends, packet = conductor.lab.endpoints(), conductor.plan.packet
        sender = self.bare_sender = BareSender(self._wait)
        conductor.watch.readable(sender.channel, sender.hear)
        sender.open(ends, packet.full_packet_bytes)
        for way in PORTS:
            climber = Climber(self._of(partial(sender.run, way), LADDER_S), FIRST_PPS)
            climber.climb()
            climber.run = self._of(partial(sender.run, way), self._seconds / 3)
            self.climbers[way] = climber
        bare = self.climbers[RECEIVED]
        if with_iperf:
            self.iperf = Iperf(ends, self._payload, self._wait)
            self.iperf.open()
            slower = Climber(self._of(self.iperf.run, self._seconds), bare.pps / COARSE**3)
            if slower.climb() > 0:
                self.climbers["iperf3"] = slower

    def _size(self, rate: float) -> None:
        """Make the collective's messages as large as arrives of them in a turn."""
        plan = self._conductor.plan
        n, mtu = plan.fabric.n_gpus, self._payload
        size = int(min(max(rate * self._seconds / n, LEAST_BYTES), MOST_BYTES)) // mtu * mtu
        asked = plan.experiment
        schedule = plan.collective.schedule(plan.fabric, range(n), size, asked.dtype, asked.redop)
        self._conductor.plan = replace(plan, schedules=(schedule,))

    def turn(self) -> dict[str, float]:
        """One turn of everybody: payload bytes per second."""
        self.transport.append(self._iterate())
        rates = {name: climber.turn().rate for name, climber in self.climbers.items()}
        return {"transport": self.transport[-1].rate, **rates}

    def _iterate(self) -> Turn:
        conductor, before = self._conductor, self._conductor.lab.switch_cpu_s()
        conductor.one_iteration(self._iterations)
        self._iterations += 1
        found = conductor.notebook.iterations[-1]
        switches = conductor.lab.switch_cpu_s() - before
        return Turn(float(conductor.plan.schedule.size.sum()), found["seconds"], found["cpu_s"], switches)

    def _of(self, send: Callable[[float, float], Trial], seconds: float) -> Callable[[float], Turn]:
        def run(pps: float) -> Turn:
            before = self._conductor.lab.switch_cpu_s()
            trial = send(pps, seconds)
            switches = self._conductor.lab.switch_cpu_s() - before
            return Turn(float(trial.arrived * self._payload), trial.seconds, trial.cpu_s, switches)

        return run

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        """Go on with the health loop until it is done: it runs beside bare senders as beside the transport."""
        end = time.monotonic() + WITHIN_S
        while not done():
            if time.monotonic() > end:
                raise LabError(f"waited {WITHIN_S:.0f} s for {what}.")
            self._conductor.step()

    def found(self) -> dict[str, Any]:
        """The figures: medians over the turns."""
        ways = {name: _medians(climber.turns) | {"offered_pps": climber.pps} for name, climber in self.climbers.items() if climber.turns}  # fmt: skip
        rows, ours = self._conductor.notebook.iterations, _medians(self.transport)
        ratios = {
            f"to_{name}": ours["payload_bytes_s"] / way["payload_bytes_s"] for name, way in ways.items()
        }
        return {
            "gpus": self._conductor.plan.fabric.n_gpus,
            "path_mtu": self._payload,
            "turns": len(self.transport),
            "datapath": self._conductor.lab.datapath,
            "bring_up_s": self._conductor.notebook.figures["bring_up_s"],
            "message_bytes": self._conductor.plan.schedule.size_bytes,
            "transport": {
                **ours,
                **{key: sum(row[key] for row in rows) for key in ("packets_sent", "retransmitted", "wrong")},
            },
            **ways,
            **({"ratio": {**ratios, "to_the_best": min(ratios.values()), "asked": ASKED}} if ratios else {}),
            "reroutes": len(self._conductor.notebook.reroutes),
        }

    def close(self) -> None:
        if self.iperf is not None:
            self.iperf.stop()
        self._conductor.down()
        if self.bare_sender is not None:
            self.bare_sender.stop()


def _medians(turns: Sequence[Turn]) -> dict[str, float]:
    """Rates in bytes/s, and CPU seconds per gigabyte (10^9 bytes) of payload; `switch_cores`: CPUs that switching used."""
    middle = statistics.median
    rates = [turn.rate for turn in turns]
    return {
        "payload_bytes_s": middle(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "cpu_s_per_gb": middle(turn.cpu_s / turn.payload_bytes * 1e9 for turn in turns),
        "switch_cpu_s_per_gb": middle(turn.switch_cpu_s / turn.payload_bytes * 1e9 for turn in turns),
        "switch_cores": middle(turn.switch_cpu_s / turn.seconds for turn in turns),
    }


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """Inside: `message["turns"]` turns of about `message["seconds"]` each; `bare` and `iperf` say who else sends."""
    registers = load_registers()
    conductor = Conductor(from_document(message["document"], registers), registers, channel.send)
    contest = Contest(conductor, message["seconds"])
    try:
        contest.open()
        if message["bare"]:
            contest.challenge(with_iperf=message["iperf"])
        for _ in range(message["turns"]):
            channel.send({"kind": "turn", "rates": contest.turn()})
        found = contest.found()
    finally:
        contest.close()
    channel.send({"kind": "result", "findings": found})


def planned(gpus: int, turns: int, registers: Registers, datapath: str = "auto") -> Plan:
    """A rail-only fabric as square as may be, at its declared rates, and a send-recv round all GPUs."""
    rails = max(k for k in range(1, math.isqrt(gpus) + 1) if gpus % k == 0)
    if rails == 1:
        raise InputError(
            f"--gpus {gpus}: a rail-only fabric needs domains x rails; {gpus} is prime. Try {gpus + 1}."
        )
    wanted = {
        "topology": "rail-only", "topology.domains": gpus // rails, "topology.rails": rails, "router": "hscore",
        "collective": "send-recv", "size": LEAST_BYTES, "iterations": turns + 3, "path_mtu": "4096", "fault": "none",
        "rate_scale": 1.0, "transport.max_window": WINDOW, "engine.datapath": datapath,
    }  # fmt: skip
    return load(None, wanted, registers)


def throughput(
    registers: Registers, gpus: int, seconds: float, turns: int, tell: Callable[[str], None], *, iperf: bool
) -> dict[str, Any]:
    """Payload bytes per second of the transport and of bare senders between the same hosts, by turns, in one lab.

    `iperf`: also iperf3 where it is installed; it sends for whole seconds.
    """
    there = iperf and shutil.which("iperf3", path=SYSTEM_PATH) is not None
    document = planned(gpus, turns, registers).document()
    message = {"document": document, "seconds": seconds, "turns": turns, "bare": True, "iperf": there}

    def show(said: Mapping[str, Any]) -> None:
        if said["kind"] == "turn":
            rates = said["rates"].items()
            tell(", ".join(f"{name} {rate / 1e6:.1f} MB/s" for name, rate in rates))

    return dict(in_lab("throughput", message, show))
