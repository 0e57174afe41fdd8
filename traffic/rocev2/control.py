"""How fast one pair sends, by a congestion control."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from railweave.framework.errors import PluginError, blaming, defined_at
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER
from railweave.traffic.rocev2.choice import PICOSECONDS

ROUNDING = 1e-9
"""Relative error of a rate that rounding explains."""


class Controlling(NamedTuple):
    """The congestion control of all pairs, and its registered name."""

    control: CongestionControl
    name: str

    def of_pair(self) -> "PairControl":
        return PairControl(self.control, f"congestion-control {self.name}")

    def of_receiver(self) -> "Notifier | None":
        """What says when the receiving side sends a CNP; None where it has no say."""
        with blaming(f"congestion-control {self.name}", PluginError):
            record = self.control.receiver_record()
        return (
            None if record is None else Notifier(self.control, f"congestion-control {self.name}", record[0])
        )


class Notifier:
    """The record of a receiving side. `clock`: declared picoseconds a second of ours."""

    def __init__(self, control: CongestionControl, name: str, record: Any) -> None:
        self._control, self._name, self._record = control, name, record
        self.clock = PICOSECONDS

    def received(self, now_s: float, nbytes: int, marked: bool) -> bool:
        """Whether a CNP is to be sent now that a packet has arrived."""
        with blaming(self._name, PluginError):
            return bool(self._control.received(self._record, round(now_s * self.clock), nbytes, marked))


class PairControl:
    """A control and its record of one pair, on this side of the scale: bytes, seconds of our clock, bytes a
    second of it. `clock`: declared picoseconds a second of ours.

    Until the rates of its paths are known, a pair is not held back. A packet leaves no earlier than the bytes
    of the last one over the rate after it was due; a pair late by more than that counts from now.

    Raises PluginError, with file and line, where the control fails, or leaves its bounds.
    """

    def __init__(self, control: CongestionControl, name: str) -> None:
        self._control, self._name = control, name
        self._bytes: dict[int, int] = {}
        self._heard: list[int] = [0, 0]
        self._delay_s, self._newest = 0.0, 0
        self.in_flight, self.due_s = 0, 0.0
        self._line = 0.0
        self.begin(PICOSECONDS)

    def begin(self, clock: float) -> None:
        """Forget what is known, on a clock of another scale."""
        self.clock = clock
        with blaming(self._name, PluginError):
            self._record = self._control.sender_record()[0]
        self._line = 0.0

    def use_paths(
        self, now_s: float, rates_bps: Sequence[float], depths: Sequence[float], latencies_s: Sequence[float],
        packet_bytes: int, clock: float,
    ) -> None:  # fmt: skip
        """The pair's paths from now on. Its line is the fastest path; its idle round trip the slowest one's:
        the time of a packet on every link, and twice the latency."""
        if clock != self.clock:
            self.begin(clock)
        if (fastest := max(rates_bps)) <= 0:
            return
        scale = clock / PICOSECONDS
        self._line = fastest / 8 / scale
        round_trip_s = max(
            depth * 8 * packet_bytes / rate + 2 * latency
            for rate, depth, latency in zip(rates_bps, depths, latencies_s, strict=True)
            if rate > 0
        )
        idle = max(round(round_trip_s * clock), 1)
        self._call(self._control.start, now_s, self._line, idle, max(1, round(max(depths))), packet_bytes)

    # -- what senders ask ------------------------------------------------------------------------------
    @property
    def ready(self) -> bool:
        """Whether the rates of paths are known."""
        return self._line > 0

    def packets(self, packet_bytes: int, most: int) -> int:
        """How many packets the window holds, one at least and `most` at most."""
        if not self.ready:
            return most
        return int(max(1.0, min(float(self._record["window"]) / packet_bytes, most)))

    def gap_s(self, packet_bytes: int) -> float:
        """Time from one packet to the next at the present rate."""
        if not self.ready:
            return 0.0
        return packet_bytes / float(self._record["rate"]) * PICOSECONDS / self.clock

    # -- what senders say ------------------------------------------------------------------------------
    def sent(self, now_s: float, number: int, nbytes: int) -> None:
        """A packet leaves; `due_s` is when the next one may."""
        self._bytes[number] = nbytes
        self.in_flight += nbytes
        gap_s = self.gap_s(nbytes)
        self.due_s = (self.due_s if now_s - self.due_s <= gap_s else now_s) + gap_s
        self._call(self._control.sent, now_s, nbytes)

    def arrived(self, number: int, marked: bool) -> None:
        """A packet is acknowledged; `acknowledged` tells the control of all that are at once."""
        nbytes = self._bytes.pop(number, 0)
        self.in_flight -= nbytes
        self._heard[0] += nbytes
        self._heard[1] += nbytes * marked

    def took(self, transmission: int, delay_s: float) -> None:
        """A packet that was sent once was acknowledged after `delay_s`; the newest one counts."""
        if transmission > self._newest:
            self._newest, self._delay_s = transmission, delay_s

    def acknowledged(self, now_s: float) -> None:
        (nbytes, marked), self._heard = self._heard, [0, 0]
        if nbytes and self._delay_s > 0:
            delay = max(round(self._delay_s * self.clock), 1)
            self._call(self._control.acknowledged, now_s, nbytes, marked, delay, self.in_flight)

    def lost(self, now_s: float, numbers: Sequence[int], why: int) -> None:
        nbytes = sum(self._bytes.pop(number, 0) for number in numbers)
        self.in_flight -= nbytes
        if nbytes:
            self._call(self._control.lost, now_s, nbytes, why)

    def notified(self, now_s: float) -> None:
        self._call(self._control.notified, now_s)

    def forget(self) -> None:
        """Nothing is under way any more."""
        self._bytes.clear()
        self.in_flight, self._heard = 0, [0, 0]

    def catch_up(self, now_s: float) -> None:
        """Wake the control for every time that has come since it was last called."""
        if self.ready and self._record["wake"] != NEVER:
            self._wake(round(now_s * self.clock))

    def _call(self, function: Callable[..., Any], now_s: float, *arguments: Any) -> None:
        if not self.ready:
            return
        now, s = round(now_s * self.clock), self._record
        if s["wake"] > 0:  # 0 before the first call
            self._wake(now)
        with blaming(self._name, PluginError):
            function(s, now, *arguments)
        self._wake(now)
        rate, least = float(s["rate"]), self._control.least_rate * self._line
        if not least * (1 - ROUNDING) <= rate <= self._line * (1 + ROUNDING) or not s["window"] > 0:
            raise PluginError(
                f"{self._name}: after {function.__name__}() at {defined_at(function)} the rate is {rate:.6g} "
                f"of {least:.6g} to {self._line:.6g} bytes/s, the window {float(s['window']):.6g} bytes."
            )

    def _wake(self, now: int) -> None:
        s, woke = self._record, self._control.woke
        while (wake := int(s["wake"])) <= now:
            with blaming(self._name, PluginError):
                woke(s, wake)
            if int(s["wake"]) <= wake:
                raise PluginError(f"{self._name}: woke() at {defined_at(woke)} leaves `wake` at {wake}.")
