"""The choosers of paths that come with railweave."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs import PathChooser
from railweave.framework.parameters import Parameter, Value

IN_TURN, MESSAGES = "in-turn", "messages"
MOST_PATHS = 128
"""Of a pair."""
AHEAD = 1e-9
"""Packets by which rounding may make a path seem ahead of its share."""
UNIT = 2.0**-53


class InTurn(PathChooser):
    """Of the paths that are not ahead of their share, each packet takes the one whose next is due first:
    WF2Q with packets of one size (Bennett and Zhang, INFOCOM 1996).

    After any n packets every path has got n times its share, give or take one. The transport has the order
    from `traffic/rocev2/turns.py`, which computes it once for all pairs with these shares.
    """

    summary = "paths in turn: exact shares after any number of packets"
    state = np.dtype([("sent", np.int64), ("of", np.int64, (MOST_PATHS,))])

    def start(self) -> NDArray[np.void]:
        return np.zeros(1, self.state)

    @staticmethod
    def use_paths(s: Any, n_paths: int) -> None:
        s["sent"] = 0
        s["of"][:] = 0

    @staticmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        path, due = 0, np.inf
        for i in range(len(shares)):
            if s["of"][i] <= (s["sent"] + AHEAD) * shares[i] and (s["of"][i] + 1) < due * shares[i]:
                path, due = i, (s["of"][i] + 1) / shares[i]
        s["sent"] += 1
        s["of"][path] += 1
        return path


class WholeMessages(InTurn):
    """The same for messages: those of queue pairs in turn, each of which keeps its path (NCCL,
    NCCL_IB_QPS_PER_CONNECTION without NCCL_IB_SPLIT_DATA_ON_QPS)."""

    summary = "paths in turn, a whole message each"
    each = "message"


class Flowlets(PathChooser):
    """Packets follow the one before them; after a pause of `gap` the next one takes a path at random.

    Source: Sinha, Kandula and Katabi, "Harnessing TCP's burstiness with flowlet switching" (HotNets 2004);
    with random choice "Let it flow" (LetFlow, NSDI 2017). A gap longer than what paths differ in keeps the
    order.
    """

    summary = "a new path at random after a gap, the same one otherwise"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "gap", 500e-9, "time", "declared time without a packet after which paths change", minimum=0
        ),
    )
    state = np.dtype([("gap", np.int64), ("last", np.int64), ("path", np.int64), ("flowlets", np.int64)])

    def __init__(self, gap_s: float = 500e-9) -> None:
        self._gap_s = gap_s

    def configured(self, options: Mapping[str, Value]) -> "Flowlets":
        return Flowlets(float(options["gap"]))

    def start(self) -> NDArray[np.void]:
        s = np.zeros(1, self.state)
        s["gap"], s["path"] = round(self._gap_s * 1e12), -1
        return s

    @staticmethod
    def use_paths(s: Any, n_paths: int) -> None:
        s["path"] = -1

    @staticmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        if s["path"] < 0 or now - s["last"] > s["gap"]:
            left = np.float64(draw >> np.uint64(11)) * UNIT
            path = 0
            while path < len(shares) - 1 and left >= shares[path]:
                left -= shares[path]
                path += 1
            s["path"] = path
            s["flowlets"] += 1
        s["last"] = now
        return int(s["path"])


class AtRandom(Flowlets):
    """Every packet takes a path at random, with the probability of its share: oblivious spray of senders that
    keep no order. A flowlet for every packet."""

    summary = "a path at random for every packet, by shares"
    parameters = ()

    def __init__(self) -> None:
        super().__init__(-1e-12)

    def configured(self, options: Mapping[str, Value]) -> "AtRandom":
        return self
