"""Packets that arrive without their payload, at their senders; in numba's subset of Python."""

from typing import Any

from railweave.framework.hookspecs.congestion import TRIMMED as CUT_OFF
from railweave.plugins.packet.layout import ACKED, LOST, State
from railweave.plugins.packet.lists import take_off
from railweave.plugins.packet.losses import gone


def asked_again(s: State, call: Any, i: int, now: int) -> None:
    """The sender of a packet hears that its header alone has arrived."""
    packet = s.packet[i]
    if packet["flags"] & (ACKED | LOST):
        return
    pair = s.pair[packet["pair"]]
    pair["heard"] = pair["active"] = now
    pair["probes"] = 0
    take_off(s, i)
    gone(s, call, i, now, CUT_OFF)
