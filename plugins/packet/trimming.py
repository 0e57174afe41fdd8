"""Packets that arrive without their payload, at their senders; in numba's subset of Python."""

from typing import Any

from railweave.framework.hookspecs.congestion import TRIMMED as CUT_OFF
from railweave.plugins.packet.layout import ACKED, LISTED, LOST, NONE, State
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


def take_off(s: State, i: int) -> None:
    """A packet leaves the list of its path, or that of paths that its pair has left. Headers go before data,
    so it need not be the first, and those before it are not late."""
    packet = s.packet[i]
    pair, path = s.pair[packet["pair"]], s.path[packet["path"]]
    listed = packet["flags"] & LISTED
    k, before = path["head"] if listed else pair["left_head"], NONE
    while k != i:
        k, before = s.packet[k]["later"], k
    if before != NONE:
        s.packet[before]["later"] = packet["later"]
    elif listed:
        path["head"] = packet["later"]
    else:
        pair["left_head"] = packet["later"]
    if listed and packet["later"] == NONE:
        path["tail"] = before
    packet["flags"] &= ~LISTED
