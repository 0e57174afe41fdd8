"""How fast each pair sends."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.parameters import Value

NEVER = 1 << 62
"""The time of a timer that is not set."""
OVERTAKEN, TIMEOUT, TRIMMED = 0, 1, 2
"""Why packets are considered lost: later ones arrived, nothing arrived in time, or the payload was cut off in
a full queue."""


class CongestionControl(Configurable, Protocol):
    """Sets the window and the rate of a pair, told of what became of its packets.

    What a control knows of a pair is a record, `state`, of numbers and fixed arrays of them, and what the
    receiving side knows another, `receiver`, where it has a say. The functions are plain, as those of a
    PathChooser: no `self`, nothing but arithmetic on their arguments (`math.sqrt`, `min`, `max`, `abs` too),
    no call of another function, no division by zero. `s` is the record of the pair, read and written by name.

    Three fields of `state` are read after every call. `window` (float64): bytes that may be under way, inf
    for no limit; one packet always may. `rate` (float64): bytes a second; the next packet leaves no earlier
    than the last one's bytes over the rate after it. It stays within `least_rate` times the line and the
    line. `wake` (int64): when to call `woke`, NEVER for not at all; one that has come is called at once, and
    then lies ahead.

    Times are declared picoseconds, bytes those of packets on the wire, rates declared bytes a second. All are
    called in the order of what happens; a record stays from one iteration to the next.

    `least_rate`: share of the line. `needs`: "mark" for a control that is of no use without marks of
    congestion on packets. `follows_links`: whether pairs send what links allow, so that it is known what an
    iteration should take.
    """

    state: np.dtype[np.void]
    receiver: np.dtype[np.void] | None = None
    least_rate: float = 1e-3
    needs: tuple[str, ...] = ()
    follows_links: bool = False

    @abstractmethod
    def sender_record(self) -> NDArray[np.void]:
        """(1,): the record of a pair before its first packet, with the options in it."""

    def receiver_record(self) -> NDArray[np.void] | None:
        """(1,): the record of the receiving side before the first packet; None where it has no say."""
        return None

    @staticmethod
    @abstractmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        """The pair sends over paths that carry `line_rate` together, with `hops` links at most; a packet of
        `mtu` bytes, the largest, and its answer take `base_rtt` where no other waits. Called first, and when
        paths change, with what was known still in `s`."""

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        """A packet leaves."""
        return

    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        """An acknowledgement says that `nbytes` arrived, `marked_bytes` of them in packets that met
        congestion; the last of these packets left `delay` ago, and `in_flight` bytes are still under way."""
        return

    @staticmethod
    def notified(s: Any, now: int) -> None:
        """The receiving side has asked for less (a congestion notification packet, CNP)."""
        return

    @staticmethod
    def lost(s: Any, now: int, nbytes: int, why: int) -> None:
        """`nbytes` are considered lost: OVERTAKEN, TIMEOUT or TRIMMED."""
        return

    @staticmethod
    def woke(s: Any, now: int) -> None:
        """`wake` has come: `now` is that time, or a little later."""
        return

    @staticmethod
    def received(r: Any, now: int, nbytes: int, marked: bool) -> bool:
        """At the receiving side, with its record: a packet has arrived. True sends a CNP now."""
        return False


@runtime_checkable
class ControlsCongestion(Protocol):
    """What a transport has besides if its pairs send as a control says. Optional: without it no control can
    be used but `window`, which stands for what a transport does by itself."""

    def use_control(self, name: str, options: Mapping[str, Value]) -> None:
        """Send so, by the register of congestion controls; called before `start`."""
        ...
