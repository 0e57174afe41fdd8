"""The transport's options, as the sending halves use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil

from railweave.framework.parameters import Parameter, Value

SPAN = 256
"""Packets that one pair may have between the first one missing and the last one sent: the reach of an
acknowledgement's bitmap."""
PATH_PACKETS = 2
"""Every path of a pair needs one packet under way and one behind it."""

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "target_delay", 0.06, "time", "queueing that a pair's window may cause at its own rate", minimum=0
    ),
    Parameter("min_window", 8, "count", "smallest window of a pair, in packets", minimum=1, maximum=SPAN),
    Parameter("max_window", 64, "count", "largest window of a pair, in packets", minimum=1, maximum=SPAN),
    Parameter(
        "send_budget_bytes", 0, "bytes", "most bytes that all ranks together have in flight; 0: no bound",
        minimum=0,
    ),
    Parameter(
        "dead_after", 4.5, "time",
        "a pair without progress for so long (or four timeouts) fails the run", minimum=0.1,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tuning:
    """Option values in packets, bytes and seconds; names as in PARAMETERS."""

    target_delay: float = 0.06
    min_window: int = 8
    max_window: int = 64
    send_budget_bytes: int = 0
    dead_after: float = 4.5

    @classmethod
    def of(cls, options: Mapping[str, Value]) -> Tuning:
        """From the parsed, complete options of PARAMETERS."""
        return cls(**{f.name: options[f.name] for f in fields(cls) if f.name in options})  # type: ignore[arg-type]

    def window(
        self,
        rates_bps: Sequence[float],
        depths: Sequence[float],
        latencies_s: Sequence[float],
        packet_bytes: int,
    ) -> int:
        """Packets in flight that keep `target_delay` of queue at the rate of all paths together.

        A path of a depth of more than two packets holds more: one packet a link on the way there, and
        acknowledgements on the way back that wait behind as many. One with a latency also holds what travels there
        and back meanwhile, and that comes on top of `max_window`, up to SPAN.
        """
        packet_bits = 8 * packet_bytes
        wanted = ceil(sum(rates_bps) * self.target_delay / packet_bits)
        held = sum(ceil(2 * (depth - 2) - 1e-9) for depth in depths if depth > 2)
        wanted = max(wanted, self.min_window, PATH_PACKETS * len(depths)) + held
        travelling = sum(
            ceil(2 * rate * late / packet_bits) for rate, late in zip(rates_bps, latencies_s, strict=True)
        )
        return min(max(min(wanted, self.max_window), 1) + travelling, SPAN)


def acknowledge_every(window: int) -> int:
    """Of how many packets one asks for an acknowledgement: four or more in a window, but not more than one in 8
    packets until there are eight in a window. Switches pay for every packet by its head, not its size."""
    return max(1, min(window // 4, max(8, window // 8)))
