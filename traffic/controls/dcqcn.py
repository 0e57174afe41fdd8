"""DCQCN: the rate follows the congestion notifications of the receiver."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER
from railweave.framework.parameters import Parameter, Value

PICOSECONDS = 1e12
"""In a second."""
FULL = 0.999
"""Share of the line from which a rate counts as the line again: recovery halves the rest for ever."""
FADED = 1e-9
"""An estimate of congestion below this is none."""


class Dcqcn(CongestionControl):
    """A rate for each pair: Zhu and others, "Congestion control for large-scale RDMA deployments" (SIGCOMM
    2015), section 5.

    The receiving side sends a CNP at most once in `cnp_interval` while packets arrive marked. A CNP cuts the
    rate Rc by half of alpha, the estimate of congestion, and keeps it as the target Rt. Then a timer and a
    counter of bytes raise it: for the first `fast_steps` of either it halves its distance to the target, then
    the target grows by `ai`, and by `hai` once both are past that. Increments are shares of the line: the
    paper's 40 Mb/s are for 40 Gb/s. alpha decays by g in every `alpha_interval` without a CNP, computed when
    the next one comes. There is no window, and a loss changes nothing: the paper's fabric loses none.
    """

    summary = "a rate that falls with congestion notifications and recovers by timer and bytes (DCQCN)"
    parameters: tuple[Parameter, ...] = (
        Parameter("cnp_interval", 50e-6, "time", "declared time between CNPs to a pair, at least", minimum=0),
        Parameter(
            "alpha_interval", 55e-6, "time", "time without a CNP after which alpha decays", minimum=1e-9
        ),
        Parameter("g", 1 / 256, "ratio", "weight of the latest interval in alpha", minimum=1e-6, maximum=1),
        Parameter("timer", 55e-6, "time", "time of a step of recovery", minimum=1e-9),
        Parameter("byte_counter", 10_000_000, "bytes", "bytes of a step of recovery", minimum=1),
        Parameter("fast_steps", 5, "count", "steps of fast recovery", minimum=1),
        Parameter("ai", 1e-3, "ratio", "additive increase of the target, share of the line", minimum=0),
        Parameter("hai", 1e-2, "ratio", "hyper increase of the target, share of the line", minimum=0),
    )
    needs = ("mark",)
    state = np.dtype(
        [
            ("window", np.float64),
            ("rate", np.float64),
            ("wake", np.int64),
            ("target", np.float64),
            ("alpha", np.float64),
            ("line", np.float64),
            ("least", np.float64),
            ("notified_at", np.int64),
            ("timer_at", np.int64),
            ("timer_steps", np.int64),
            ("byte_steps", np.int64),
            ("bytes", np.int64),
            ("g", np.float64),
            ("alpha_interval", np.int64),
            ("timer", np.int64),
            ("byte_counter", np.int64),
            ("fast_steps", np.int64),
            ("ai", np.float64),
            ("hai", np.float64),
        ]
    )
    receiver: np.dtype[np.void] | None = np.dtype([("interval", np.int64), ("sent_at", np.int64)])

    def __init__(self, options: Mapping[str, Value] | None = None) -> None:
        self._options: dict[str, Any] = {p.name: p.default for p in self.parameters} | dict(options or {})

    def configured(self, options: Mapping[str, Value]) -> "Dcqcn":
        return Dcqcn(options)

    def sender_record(self) -> NDArray[np.void]:
        s = np.zeros(1, self.state)
        s["alpha"], s["least"] = 1.0, self.least_rate
        for name in ("g", "byte_counter", "fast_steps", "ai", "hai"):
            s[name] = self._options[name]
        for name in ("alpha_interval", "timer"):
            s[name] = round(self._options[name] * PICOSECONDS)
        return s

    def receiver_record(self) -> NDArray[np.void]:
        r = np.zeros(1, self.receiver)
        r["interval"] = round(self._options["cnp_interval"] * PICOSECONDS)
        r["sent_at"] = -r["interval"]
        return r

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        if s["line"] == 0.0:
            s["rate"] = line_rate
            s["target"] = line_rate
            s["notified_at"] = now  # alpha does not decay for the time before
        s["line"] = line_rate
        s["rate"] = min(max(s["rate"], s["least"] * line_rate), line_rate)
        s["target"] = min(max(s["target"], s["rate"]), line_rate)
        s["window"] = np.inf
        s["timer_at"] = now + s["timer"]
        s["wake"] = s["timer_at"] if s["rate"] < line_rate else NEVER

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        if s["wake"] != NEVER:
            s["bytes"] += nbytes
            if s["bytes"] >= s["byte_counter"]:
                s["wake"] = now

    @staticmethod
    def notified(s: Any, now: int) -> None:
        intervals = (now - s["notified_at"]) // s["alpha_interval"]
        while intervals > 0 and s["alpha"] > 0.0:
            s["alpha"] = (1.0 - s["g"]) * s["alpha"]
            if s["alpha"] < FADED:
                s["alpha"] = 0.0
            intervals -= 1
        s["target"] = s["rate"]
        s["rate"] = max(s["rate"] * (1.0 - s["alpha"] / 2.0), s["least"] * s["line"])
        s["alpha"] = (1.0 - s["g"]) * s["alpha"] + s["g"]
        s["notified_at"] = now
        s["timer_steps"] = 0
        s["byte_steps"] = 0
        s["bytes"] = 0
        s["timer_at"] = now + s["timer"]
        s["wake"] = s["timer_at"]

    @staticmethod
    def woke(s: Any, now: int) -> None:
        for by_bytes in (True, False):
            if by_bytes and s["bytes"] >= s["byte_counter"]:
                s["bytes"] -= s["byte_counter"]
                s["byte_steps"] += 1
            elif not by_bytes and now >= s["timer_at"]:
                s["timer_at"] = now + s["timer"]
                s["timer_steps"] += 1
            else:
                continue
            if min(s["timer_steps"], s["byte_steps"]) > s["fast_steps"]:
                s["target"] = min(s["target"] + s["hai"] * s["line"], s["line"])
            elif max(s["timer_steps"], s["byte_steps"]) > s["fast_steps"]:
                s["target"] = min(s["target"] + s["ai"] * s["line"], s["line"])
            s["rate"] = (s["target"] + s["rate"]) / 2.0
        s["wake"] = s["timer_at"]
        if s["rate"] >= FULL * s["line"]:
            s["rate"] = s["line"]
            s["target"] = s["line"]
            s["bytes"] = 0
            s["wake"] = NEVER

    @staticmethod
    def received(r: Any, now: int, nbytes: int, marked: bool) -> bool:
        if marked and now - r["sent_at"] >= r["interval"]:
            r["sent_at"] = now
            return True
        return False
