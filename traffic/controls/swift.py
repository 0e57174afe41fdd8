"""Swift: the window follows the delay."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import PluginError
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER, TIMEOUT
from railweave.framework.parameters import Parameter, Value

PICOSECONDS, PICOSECOND = 1e12, 1e-12
"""In a second; and one in seconds."""
RESET_AFTER = 5
"""Timeouts in a row after which the window is the least (RETX_RESET_THRESHOLD)."""


class Swift(CongestionControl):
    """A window that keeps round trips near a target: Kumar and others, "Swift: delay is simple and effective
    for congestion control in the datacenter" (SIGCOMM 2020), algorithm 1 and section 3.5.

    Below the target the window grows by `ai` packets a round trip, above it shrinks by `beta` times the
    excess over the delay, by `max_mdf` at most and once a round trip. The target is the round trip on idle
    links, `queue`, `hop` for each link, and up to `flow_range` for small windows, which many flows on a link
    have: (1 / sqrt(cwnd) - 1 / sqrt(flow_most)) / (1 / sqrt(flow_least) - 1 / sqrt(flow_most)) of it. Below
    a packet, the pair sends one at a time, spaced. The paper's base target is one number for all pairs; here
    the engine knows each pair's idle round trip. The window has at most twice what the line carries in a
    target, and the rate, below a packet, at least `least_rate` of the line.
    """

    summary = "a window that keeps round trips near a target delay (Swift)"
    parameters: tuple[Parameter, ...] = (
        Parameter("queue", 1e-6, "time", "declared queueing delay that is aimed at", minimum=0),
        Parameter("hop", 0.0, "time", "added to the target for each link", minimum=0),
        Parameter("flow_range", 4e-6, "time", "added to the target for the smallest windows", minimum=0),
        Parameter("flow_least", 0.1, "factor", "packets of a window that get all of it", minimum=1e-3),
        Parameter("flow_most", 100.0, "factor", "packets of a window that get none of it", minimum=1e-3),
        Parameter("ai", 1.0, "factor", "packets that a window grows by in a round trip", minimum=1e-3),
        Parameter("beta", 0.8, "ratio", "share of the excess by which a window shrinks", minimum=1e-3),
        Parameter("max_mdf", 0.5, "ratio", "largest share by which a window shrinks", minimum=1e-3),
    )
    state = np.dtype(
        [
            ("window", np.float64),
            ("rate", np.float64),
            ("wake", np.int64),
            ("cwnd", np.float64),
            ("line", np.float64),
            ("mtu", np.float64),
            ("least", np.float64),
            ("most", np.float64),
            ("base", np.float64),
            ("decreased_at", np.int64),
            ("round_trip", np.int64),
            ("timeouts", np.int64),
            ("queue", np.float64),
            ("hop", np.float64),
            ("flow_range", np.float64),
            ("flow_slope", np.float64),
            ("flow_offset", np.float64),
            ("ai", np.float64),
            ("beta", np.float64),
            ("max_mdf", np.float64),
        ]
    )

    def __init__(self, options: Mapping[str, Value] | None = None) -> None:
        self._options: dict[str, Any] = {p.name: p.default for p in self.parameters} | dict(options or {})

    def configured(self, options: Mapping[str, Value]) -> "Swift":
        if float(options["flow_least"]) >= float(options["flow_most"]):
            raise PluginError(
                f"swift: flow_least is {options['flow_least']} and flow_most {options['flow_most']}: small "
                "windows get more delay than large ones. Give a flow_least below flow_most."
            )
        return Swift(options)

    def sender_record(self) -> NDArray[np.void]:
        s, options = np.zeros(1, self.state), self._options
        s["least"] = self.least_rate
        for name in ("queue", "hop", "flow_range"):
            s[name] = options[name] * PICOSECONDS
        least, most = 1 / math.sqrt(options["flow_least"]), 1 / math.sqrt(options["flow_most"])
        s["flow_slope"] = s["flow_range"] / (least - most)
        s["flow_offset"] = -s["flow_slope"] * most
        for name in ("ai", "beta", "max_mdf"):
            s[name] = options[name]
        return s

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["base"] = base_rtt + s["queue"] + s["hop"] * hops
        s["most"] = max(2.0 * line_rate * s["base"] * PICOSECOND / mtu, 1.0)
        if s["line"] == 0.0:
            s["cwnd"] = max(line_rate * base_rtt * PICOSECOND / mtu, 1.0)
            s["decreased_at"] = now
            s["round_trip"] = max(base_rtt, 1)
        s["cwnd"] = min(s["cwnd"], s["most"])
        s["line"] = line_rate
        s["mtu"] = mtu
        s["window"] = max(s["cwnd"], 1.0) * mtu
        s["rate"] = line_rate
        if s["cwnd"] < 1.0:
            spaced = s["cwnd"] * mtu / (s["round_trip"] * PICOSECOND)
            s["rate"] = min(max(spaced, s["least"] * line_rate), line_rate)
        s["wake"] = NEVER

    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        s["timeouts"] = 0
        s["round_trip"] = max(delay, 1)
        before = s["cwnd"]
        few = s["flow_slope"] / math.sqrt(before) + s["flow_offset"]
        target = s["base"] + min(max(few, 0.0), s["flow_range"])
        if delay < target:
            s["cwnd"] += s["ai"] * (nbytes / s["mtu"]) / max(before, 1.0)
        elif now - s["decreased_at"] >= delay:
            s["cwnd"] *= max(1.0 - s["beta"] * (delay - target) / delay, 1.0 - s["max_mdf"])
            s["decreased_at"] = now
        floor = s["least"] * s["line"] * s["round_trip"] * PICOSECOND / s["mtu"]
        s["cwnd"] = min(max(s["cwnd"], min(floor, 1.0)), s["most"])
        s["window"] = max(s["cwnd"], 1.0) * s["mtu"]
        s["rate"] = s["line"]
        if s["cwnd"] < 1.0:
            spaced = s["cwnd"] * s["mtu"] / (s["round_trip"] * PICOSECOND)
            s["rate"] = min(max(spaced, s["least"] * s["line"]), s["line"])

    @staticmethod
    def lost(s: Any, now: int, nbytes: int, why: int) -> None:
        if why == TIMEOUT:
            s["timeouts"] += 1
        floor = min(s["least"] * s["line"] * s["round_trip"] * PICOSECOND / s["mtu"], 1.0)
        if s["timeouts"] >= RESET_AFTER:
            s["cwnd"] = floor
        elif now - s["decreased_at"] >= s["round_trip"]:
            s["cwnd"] = max(s["cwnd"] * (1.0 - s["max_mdf"]), floor)
            s["decreased_at"] = now
        s["window"] = max(s["cwnd"], 1.0) * s["mtu"]
        if s["cwnd"] < 1.0:
            spaced = s["cwnd"] * s["mtu"] / (s["round_trip"] * PICOSECOND)
            s["rate"] = min(max(spaced, s["least"] * s["line"]), s["line"])
