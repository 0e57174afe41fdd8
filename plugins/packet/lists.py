"""The lists of packets, linked through them: of a path, those sent on it; of a pair, those lost, and arrived
but not acknowledged; and those that are free. In numba's subset of Python."""

from typing import Any

from railweave.plugins.packet.layout import FREE, LISTED, N_FREE, NONE, State


def new_packet(s: State) -> int:
    i = s.globals[FREE]
    s.globals[FREE] = s.packet[i]["next"]
    s.globals[N_FREE] -= 1
    return i


def release(s: State, i: int) -> None:
    """One of the lists that hold a packet lets it go."""
    packet = s.packet[i]
    packet["uses"] -= 1
    if packet["uses"] == 0:
        packet["next"] = s.globals[FREE]
        s.globals[FREE] = i
        s.globals[N_FREE] += 1


# -- sent ----------------------------------------------------------------------------------------------
def list_sent(s: State, path: Any, i: int) -> None:
    """A packet is the last one sent on a path."""
    if path["head"] == NONE:
        path["head"] = i
    else:
        s.packet[path["tail"]]["later"] = i
    path["tail"] = i


def take_off(s: State, i: int) -> None:
    """A packet leaves the list of its path. Headers go before data, so it need not be the first, and those
    before it are not late."""
    packet = s.packet[i]
    path = s.path[packet["path"]]
    k, before = path["head"], NONE
    while k != i:
        k, before = s.packet[k]["later"], k
    if before != NONE:
        s.packet[before]["later"] = packet["later"]
    else:
        path["head"] = packet["later"]
    if packet["later"] == NONE:
        path["tail"] = before
    packet["flags"] &= ~LISTED


# -- lost ----------------------------------------------------------------------------------------------
def list_lost(s: State, pair: Any, i: int) -> None:
    """A packet is the last one that a pair has to send again."""
    s.packet[i]["later"] = NONE
    if pair["lost_head"] == NONE:
        pair["lost_head"] = i
    else:
        s.packet[pair["lost_tail"]]["later"] = i
    pair["lost_tail"] = i


def drop_lost(s: State, pair: Any) -> None:
    """The first one need not be sent again any more."""
    i = pair["lost_head"]
    pair["lost_head"] = s.packet[i]["later"]
    release(s, i)


# -- acknowledgements that are owed --------------------------------------------------------------------
def owe(s: State, pair: Any, i: int) -> None:
    """A packet has arrived, and is acknowledged after those before it."""
    s.packet[i]["next"] = NONE
    if pair["owed_head"] == NONE:
        pair["owed_head"] = i
    else:
        s.packet[pair["owed_tail"]]["next"] = i
    pair["owed_tail"] = i
    pair["owed"] += 1


def owe_again(s: State, pair: Any, first: int) -> None:
    """An acknowledgement of the list that `first` begins is lost; the next one makes up for it."""
    last = first
    count = 1
    while s.packet[last]["next"] != NONE:
        last = s.packet[last]["next"]
        count += 1
    s.packet[last]["next"] = pair["owed_head"]
    if pair["owed_head"] == NONE:
        pair["owed_tail"] = last
    pair["owed_head"] = first
    pair["owed"] += count


def settle(pair: Any) -> int:
    """The list of what one acknowledgement acknowledges; nothing is owed then."""
    first: int = pair["owed_head"]
    pair["owed_head"] = pair["owed_tail"] = NONE
    pair["owed"] = 0
    return first
