"""NSCC: the window follows marks and delay."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER
from railweave.framework.parameters import Parameter, Value

PICOSECOND = 1e-12
"""In seconds."""
REFERENCE_BYTES, REFERENCE_RTT = 150_000.0, 12_000_000.0
"""Bandwidth-delay product and round trip (ps) at which the increases are as their factors say: 100 Gb/s and
12 us."""
PROPORTIONAL, FAIR, ETA, FAST = 4.0, 5.0, 0.15, 0.25
"""Increases at the reference: packets for each packet and reference round trip of unused delay; packets
squared; packets a round trip whatever happens; share of what arrives, while next to nothing waits."""
ADJUST_PACKETS = 8
"""Packets after which collected increases are applied, or after a round trip."""
QUICK_DELAY, QUICK_SHARE = 4.0, 0.125
"""Quick adaptation: targets of delay that cause it, and the share of the largest window that it needs to have
arrived less than."""
MOST_SHARE = 1.5
"""Largest window, in bandwidth-delay products."""


class Nscc(CongestionControl):
    """A window that follows marks and delay: the network signalled congestion control of Ultra Ethernet
    (specification 1.0), as the consortium's simulator has it (uet-htsim, sim/uec.cpp,
    updateCwndOnAck_NSCC and what it calls).

    Of an acknowledgement, unmarked and below the target of queueing delay: the window grows in proportion to
    the delay left, and fast while next to nothing waits. Unmarked and above: it grows by a fair step. Marked
    and above: it shrinks by `gamma` times the mean excess over the mean delay, by half at most, once an idle
    round trip. Marked and below: nothing, as other paths are taken. When packets are lost, or delay is
    QUICK_DELAY targets, the window becomes what arrived in the last round trip, and marks of what was under
    way are ignored (quick adaptation).

    The simulator scales by one round trip of the network, here by each pair's own; its fast increase below
    1 us of delay is one below `fast_below` of the round trip, the same at its reference of 12 us.
    """

    summary = "a window that follows marks and delay, as Ultra Ethernet has it (NSCC)"
    parameters: tuple[Parameter, ...] = (
        Parameter("target", 1.0, "factor", "queueing delay aimed at, in idle round trips", minimum=0.01),
        Parameter("fast_below", 1 / 12, "ratio", "queueing delay for fast increase, in idle round trips"),
        Parameter("gamma", 0.8, "ratio", "share of the excess delay by which a window shrinks", minimum=0.01),
        Parameter("weight", 0.0125, "ratio", "of the latest delay in the mean", minimum=1e-4),
    )
    needs = ("mark",)
    state = np.dtype(
        [
            ("window", np.float64),
            ("rate", np.float64),
            ("wake", np.int64),
            ("line", np.float64),
            ("mtu", np.float64),
            ("base", np.float64),
            ("target", np.float64),
            ("most", np.float64),
            ("scale", np.float64),
            ("mean_delay", np.float64),
            ("increase", np.float64),
            ("arrived", np.float64),
            ("achieved", np.float64),
            ("in_flight", np.float64),
            ("to_ignore", np.float64),
            ("ignored", np.float64),
            ("unqueued", np.float64),
            ("fast", np.bool_),
            ("losing", np.bool_),
            ("decreased_at", np.int64),
            ("adjusted_at", np.int64),
            ("adapt_at", np.int64),
            ("target_share", np.float64),
            ("fast_share", np.float64),
            ("gamma", np.float64),
            ("weight", np.float64),
        ]
    )

    def __init__(self, options: Mapping[str, Value] | None = None) -> None:
        self._options: dict[str, Any] = {p.name: p.default for p in self.parameters} | dict(options or {})

    def configured(self, options: Mapping[str, Value]) -> "Nscc":
        return Nscc(options)

    def sender_record(self) -> NDArray[np.void]:
        s = np.zeros(1, self.state)
        s["target_share"], s["fast_share"] = self._options["target"], self._options["fast_below"]
        s["gamma"], s["weight"] = self._options["gamma"], self._options["weight"]
        return s

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        product = line_rate * base_rtt * PICOSECOND
        s["most"] = max(MOST_SHARE * product, 1.0 * mtu)
        if s["line"] == 0.0:
            s["window"] = s["most"]
            s["decreased_at"] = now
            s["adjusted_at"] = now
            s["adapt_at"] = NEVER
        s["window"] = min(max(s["window"], 1.0 * mtu), s["most"])
        s["line"] = line_rate
        s["rate"] = line_rate
        s["mtu"] = mtu
        s["base"] = base_rtt
        s["target"] = s["target_share"] * base_rtt
        s["scale"] = product / REFERENCE_BYTES
        s["wake"] = NEVER

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["in_flight"] += nbytes

    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        queued, marked = max(delay - s["base"], 0.0), marked_bytes > 0
        s["in_flight"] = in_flight
        s["arrived"] += nbytes
        s["achieved"] += nbytes
        s["ignored"] += nbytes
        sample = 0.25 * s["base"] if not marked and queued > s["target"] else queued
        s["mean_delay"] += s["weight"] * (sample - s["mean_delay"])
        adapted = marked and s["ignored"] - nbytes < s["to_ignore"]
        if not adapted and now >= s["adapt_at"]:
            adapted = (s["losing"] or queued > QUICK_DELAY * s["target"]) and (
                s["achieved"] < QUICK_SHARE * s["most"]
            )
            if adapted:
                s["window"] = max(s["achieved"], s["mtu"])
                s["to_ignore"] = in_flight
                s["ignored"] = 0.0
                s["losing"] = False
            s["achieved"] = 0.0
            s["adapt_at"] = now + int(s["base"] + s["target"])
        elif s["adapt_at"] == NEVER:
            s["adapt_at"] = now + int(s["base"] + s["target"])
        if adapted:
            s["increase"] = 0.0
            s["arrived"] = 0.0
        elif marked and queued >= s["target"]:
            s["fast"] = False
            s["unqueued"] = 0.0
            if s["mean_delay"] > s["target"] and now - s["decreased_at"] > s["base"]:
                excess = (s["mean_delay"] - s["target"]) / s["mean_delay"]
                s["window"] *= max(1.0 - s["gamma"] * excess, 0.5)
                s["decreased_at"] = now
        elif not marked and queued >= s["target"]:
            s["increase"] += FAIR * s["mtu"] * s["scale"] * nbytes
        elif not marked:
            s["unqueued"] = s["unqueued"] + nbytes if queued < s["fast_share"] * s["base"] else 0.0
            s["fast"] = s["unqueued"] > 0.0 and (s["fast"] or s["unqueued"] > s["window"])
            if s["fast"]:
                s["window"] += FAST * s["scale"] * nbytes
            else:
                left = (s["target"] - queued) / REFERENCE_RTT
                s["increase"] += PROPORTIONAL * s["mtu"] * s["scale"] * left * nbytes
        s["window"] = min(max(s["window"], s["mtu"]), s["most"])
        late = now - s["adjusted_at"] >= s["base"]
        if not adapted and (late or s["arrived"] > ADJUST_PACKETS * s["mtu"]):
            s["window"] += s["increase"] / s["window"]
            if late:
                s["window"] += ETA * s["mtu"] * s["scale"]
                s["adjusted_at"] = now
            s["increase"] = 0.0
            s["arrived"] = 0.0
            s["window"] = min(s["window"], s["most"])

    @staticmethod
    def lost(s: Any, now: int, nbytes: int, why: int) -> None:
        s["ignored"] += nbytes
        s["in_flight"] = max(s["in_flight"] - nbytes, 0.0)
        s["mean_delay"] += s["weight"] * (s["base"] - s["mean_delay"])
        s["losing"] = True
        if s["ignored"] - nbytes < s["to_ignore"]:
            return
        if now >= s["adapt_at"]:
            adapts = s["achieved"] < QUICK_SHARE * s["most"]
            if adapts:
                s["window"] = max(s["achieved"], s["mtu"])
                s["to_ignore"] = s["in_flight"]
                s["ignored"] = 0.0
                s["losing"] = False
                s["increase"] = 0.0
                s["arrived"] = 0.0
            s["achieved"] = 0.0
            s["adapt_at"] = now + int(s["base"] + s["target"])
            if adapts:
                return
        s["window"] = max(s["window"] - nbytes, s["mtu"])
