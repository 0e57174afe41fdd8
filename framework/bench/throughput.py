"""Payload of the whole lab per second: the transport against bare senders, in turns, through the same
switches.

Every GPU sends to the next. Links are shaped to their declared rates (400 Gb/s and above), far above what
this machine carries: the bottleneck is its switches, and the CPU that they share with the senders.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from railweave.framework.bench.bare_sender import PORTS, RECEIVED, BareSender, SendTrial
from railweave.framework.bench.bring_up import square_rail_only
from railweave.framework.bench.iperf import Iperf
from railweave.framework.errors import LabError
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.switching.host_addresses import address_hosts
from railweave.framework.lab.tasks.run import LabSession, lab_task
from railweave.framework.model.events import Note, PhaseStarted, RunEvent
from railweave.framework.processes.programs import search_path
from railweave.framework.registry import Registers

TASK = __name__
"""This module, whose `task` runs in the lab."""
GOAL = 0.85
"""The share of the best bare sender's payload that the transport should reach."""

WINDOW = 256
"""Packets in flight per pair: more than the default for shaped links, 64, to fill the batches of the
switches."""

FIRST_PPS = 10_000.0
"""Packets a second with which the search for the best load begins, far below what any machine switches."""
COARSE, FINE = 1.5, 1.15
"""Factors between neighbouring loads: while climbing, and once the peak is known."""
LADDER_S = 0.3
"""Seconds of one load while climbing."""
WORSE = 0.97
"""Share of the best rate below which a load is worse; less could be noise."""
WITHIN_S = 60.0
"""Seconds for the lab to come up, and for a turn to end."""
LEAST_BYTES, MOST_BYTES = 1 << 20, 16 << 20
"""Bounds of one rank's message. The buffers, inputs and outputs of all ranks together are four times as
large."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Payload bytes that arrived within `seconds`; CPU seconds of the sender (both ends) and of the
    switches."""

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
    """Searches for the load at which most arrives. A turn counts what arrives at the best load so far; then
    its neighbours are tried, and the best of the three is the next turn's. The best of several trials,
    counted itself, would be luck as well."""

    run: Callable[[float], Turn]
    pps: float
    turns: list[Turn] = field(default_factory=list)

    def climb(self) -> float:
        """Raise `pps` in coarse steps until less arrives twice in a row; returns the best rate."""
        best, worse, pps = 0.0, 0, self.pps
        while worse < 2:
            rate = self.run(pps).rate
            worse = worse + 1 if rate < WORSE * best or rate == 0 else 0
            if rate > best:
                best, self.pps = rate, pps
            pps *= COARSE
        return best

    def turn(self) -> Turn:
        """What arrives at the best load so far."""
        counted = self.run(self.pps)
        neighbours = [(self.run(pps).rate, pps) for pps in (self.pps / FINE, self.pps * FINE)]
        self.pps = max([(counted.rate, self.pps), *neighbours])[1]
        if counted.rate > 0:  # a turn in which nothing arrived shows nothing
            self.turns.append(counted)
        return counted


class Contest:
    """One lab, and the senders that take turns in it."""

    def __init__(self, session: LabSession, seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self._payload, self._schedule = session.plan.packet.path_mtu, session.plan.schedule
        self._switch_cpu_s = session.engine.lab.switch_cpu_s
        self.transport: list[Turn] = []
        self.climbers: dict[str, Climber] = {}

    def warm_up(self) -> None:
        """Open the queue pairs, and give messages a size that fills a turn."""
        self._session.start()
        self._iterate()  # opens the queue pairs
        rate, plan, experiment = self._iterate().rate, self._session.plan, self._session.plan.experiment
        n, mtu = plan.fabric.n_gpus, self._payload
        size = int(min(max(rate * self._seconds / n, LEAST_BYTES), MOST_BYTES)) // mtu * mtu
        self._schedule = plan.collective.schedule(
            plan.fabric, range(n), size, experiment.dtype, experiment.redop
        ).expand()
        self._iterate()

    def challenge(self, senders: ExitStack, *, with_iperf: bool) -> None:
        """Open the bare senders, which `senders` stops, and find the load at which most of each one's packets
        arrive."""
        ends, packet = self._session.parts.endpoints, self._session.plan.packet
        sender = BareSender(self._wait)
        senders.callback(sender.stop)
        self._session.engine.watch.readable(sender.channel, sender.hear)
        sender.open(ends, packet.full_packet_bytes, self._schedule.size_bytes // self._payload)
        for mode in PORTS:
            self._session.recorder.note(f"searching the load at which most {mode} packets arrive")
            climber = Climber(self._of(partial(sender.run, mode), LADDER_S), FIRST_PPS)
            climber.climb()
            climber.run = self._of(partial(sender.run, mode), self._seconds / 3)
            self.climbers[mode] = climber
        if with_iperf:
            self._session.recorder.note("searching the load at which most of iperf3's packets arrive")
            address_hosts(self._session.engine.lab)
            iperf = Iperf(ends, self._payload, self._wait)
            senders.callback(iperf.stop)
            first_pps = self.climbers[RECEIVED].pps / COARSE**3
            climber = Climber(self._of(iperf.run, self._seconds), first_pps)
            if climber.climb() > 0:
                self.climbers["iperf3"] = climber

    def _drain(self) -> None:
        """Wait until switches have forwarded what the sender before left in their buffers: seconds of work
        after an overload."""
        waiting_bytes = self._session.engine.lab.waiting_bytes
        self._wait(lambda: waiting_bytes() == 0, "the switches to forward what waits for them")

    def turn(self) -> dict[str, float]:
        """One turn of every sender: payload bytes per second."""
        self.transport.append(self._iterate())
        rates = {name: climber.turn().rate for name, climber in self.climbers.items()}
        return {"transport": self.transport[-1].rate, **rates}

    def _iterate(self) -> Turn:
        self._drain()
        iteration, before = len(self._session.recorder.iterations), self._switch_cpu_s()
        result = self._session.iterate_once(iteration, self._schedule).result
        used = self._switch_cpu_s() - before
        return Turn(float(self._schedule.size.sum()), result.seconds, result.cpu_s, used)

    def _of(self, send: Callable[[float, float], SendTrial], seconds: float) -> Callable[[float], Turn]:
        def run(pps: float) -> Turn:
            self._drain()
            before = self._switch_cpu_s()
            trial = send(pps, seconds)
            used = self._switch_cpu_s() - before
            return Turn(float(trial.arrived * self._payload), trial.seconds, trial.cpu_s, used)

        return run

    def _wait(self, done: Callable[[], bool], awaited: str) -> None:
        """Run the health loop until `done`: it goes on during bare senders as during the transport."""
        end = time.monotonic() + WITHIN_S
        while not done():
            if time.monotonic() > end:
                raise LabError(f"waited {WITHIN_S:.0f} s for {awaited}.")
            self._session.step()

    def figures(self) -> dict[str, Any]:
        """The figures: medians over the turns."""
        baselines = {
            name: {**_medians(climber.turns), "offered_pps": climber.pps}
            for name, climber in self.climbers.items()
            if climber.turns
        }
        transport = _medians(self.transport)
        iterations = [record.result for record in self._session.recorder.iterations]
        ratios = {
            f"to_{name}": transport["payload_bytes_s"] / baseline["payload_bytes_s"]
            for name, baseline in baselines.items()
        }
        return {
            "gpus": self._session.plan.fabric.n_gpus,
            "path_mtu": self._payload,
            "turns": len(self.transport),
            "datapath": self._session.engine.lab.datapath,
            "bring_up_s": self._session.parts.bring_up_s,
            "message_bytes": self._schedule.size_bytes,
            "transport": {
                **transport,
                "packets_sent": sum(iteration.packets_sent for iteration in iterations),
                "retransmitted": sum(iteration.retransmitted or 0 for iteration in iterations),
                "wrong": sum(iteration.wrong for iteration in iterations),
            },
            **baselines,
            **({"ratio": {**ratios, "to_best": min(ratios.values()), "goal": GOAL}} if ratios else {}),
        }


def _medians(turns: Sequence[Turn]) -> dict[str, float]:
    """Rates in bytes/s; CPU seconds per gigabyte (10^9 bytes) of payload; `switch_cores`: CPUs used by
    switching."""
    rates = [turn.rate for turn in turns]
    return {
        "payload_bytes_s": median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "cpu_s_per_gb": median(turn.cpu_s / turn.payload_bytes * 1e9 for turn in turns),
        "switch_cpu_s_per_gb": median(turn.switch_cpu_s / turn.payload_bytes * 1e9 for turn in turns),
        "switch_cores": median(turn.switch_cpu_s / turn.seconds for turn in turns),
    }


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> dict[str, Any]:
    """`message["turns"]` turns of about `message["seconds"]` each; `bare`, `iperf`: whether these senders run
    too."""
    with lab_task(message, emit) as session, ExitStack() as senders:
        contest = Contest(session, message["seconds"])
        contest.warm_up()
        if message["bare"]:
            contest.challenge(senders, with_iperf=message["iperf"])
        for _ in range(message["turns"]):
            rates = contest.turn().items()
            emit(Note(", ".join(f"{name} {rate / 1e6:.1f} MB/s" for name, rate in rates)))
        return contest.figures()


def planned(gpus: int, turns: int, registers: Registers, datapath: str = "auto") -> Plan:
    """A send-recv around all GPUs of a nearly square rail-only fabric at its declared rates. Routes stay, as
    bare senders lose packets on purpose, and links that lose some would be left."""
    keys = {
        **square_rail_only(gpus), "router": "hscore", "collective": "send-recv", "size": LEAST_BYTES,
        "iterations": turns + 3, "path_mtu": "4096", "rate_scale": 1.0, "transport.max_window": WINDOW,
        "engine.datapath": datapath, "feedback": False,
    }  # fmt: skip
    return load_plan(None, keys, registers)


def throughput(
    registers: Registers,
    gpus: int,
    seconds: float,
    turns: int,
    progress: Callable[[str], None],
    *,
    iperf: bool,
) -> dict[str, Any]:
    """Payload bytes per second of the transport and of bare senders between the same hosts, in turns, in one
    lab.

    `iperf`: also iperf3 where it is installed; it sends for whole seconds.
    """
    message = {
        "document": planned(gpus, turns, registers).document(),
        "seconds": seconds,
        "turns": turns,
        "bare": True,
        "iperf": iperf and shutil.which("iperf3", path=search_path()) is not None,
    }

    def show(event: RunEvent) -> None:
        if isinstance(event, Note | PhaseStarted) and event.text:
            progress(event.text)

    figures: dict[str, Any] = in_lab(TASK, message, show)
    return figures
