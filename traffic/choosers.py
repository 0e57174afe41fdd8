"""The choosers of paths that come with railweave."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs import PathChooser
from railweave.framework.parameters import Parameter, Value

IN_TURN, MESSAGES = "in-turn", "messages"
MOST_PATHS = 128
"""Paths of a pair at most: the tables of compiled choosers have this many places."""
AHEAD = 1e-9
"""Packets by which rounding may make a path seem ahead of its share."""
UNIT = 2.0**-53
"""From 53 random bits to [0, 1)."""


class InTurn(PathChooser):
    """Of the paths that are not ahead of their share, each packet takes the one whose next is due first:
    WF2Q with packets of one size (Bennett and Zhang, INFOCOM 1996).

    After any n packets every path has got n times its share, give or take one. The transport has the order
    from `traffic/rocev2/turns.py`, which computes it once for all pairs with these shares.
    """

    summary = "paths in turn: exact shares after any number of packets"
    keeps_shares = True
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
    """The same for messages: queue pairs take them in turn, and each keeps its path (NCCL,
    NCCL_IB_QPS_PER_CONNECTION without NCCL_IB_SPLIT_DATA_ON_QPS)."""

    summary = "paths in turn, a whole message each"
    each = "message"
    keeps_shares = False


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
    keeps_shares = True
    parameters = ()

    def __init__(self) -> None:
        super().__init__(-1e-12)

    def configured(self, options: Mapping[str, Value]) -> "AtRandom":
        return self


KEPT = 8
"""Paths that `Reps` remembers (section 3.1 of its source)."""


class Reps(PathChooser):
    """Paths whose packets met no congestion are taken again: REPS (Bonato and others, "REPS: recycled entropy
    packet spraying", arXiv 2407.21625).

    A packet takes the oldest path in a store of KEPT that came back unmarked and was not taken since, else
    one at random. What is marked or lost does not come back. After a loss the store is frozen for `freeze`:
    its paths are taken in turn, fresh or not, none at random. Then one packet in KEPT explores at random, as
    long as before.
    """

    summary = "paths that met no congestion are taken again, others at random (REPS)"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "freeze", 100e-6, "time", "declared time after a loss in which no new path is tried", minimum=0
        ),
    )
    needs = ("mark",)
    state = np.dtype(
        [
            ("freeze", np.int64),
            ("frozen_until", np.int64),
            ("explores_until", np.int64),
            ("sent", np.int64),
            ("stored", np.int64),
            ("fresh", np.int64),
            ("next", np.int64),
            ("path", np.int64, (KEPT,)),
        ]
    )

    def __init__(self, freeze_s: float = 100e-6) -> None:
        self._freeze_s = freeze_s

    def configured(self, options: Mapping[str, Value]) -> "Reps":
        return Reps(float(options["freeze"]))

    def start(self) -> NDArray[np.void]:
        s = np.zeros(1, self.state)
        s["freeze"] = round(self._freeze_s * 1e12)
        return s

    @staticmethod
    def use_paths(s: Any, n_paths: int) -> None:
        s["stored"] = s["fresh"] = s["next"] = s["frozen_until"] = s["explores_until"] = 0

    @staticmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        s["sent"] += 1
        frozen = now < s["frozen_until"]
        explores = not frozen and now < s["explores_until"] and s["sent"] % KEPT == 0
        if s["stored"] > 0 and frozen:
            path = s["path"][s["next"] % min(s["stored"], KEPT)]
            s["next"] += 1
            s["fresh"] = max(s["fresh"] - 1, 0)
            return int(path)
        if s["fresh"] > 0 and not explores:
            path = s["path"][(s["stored"] - s["fresh"]) % KEPT]
            s["fresh"] -= 1
            return int(path)
        left = np.float64(draw >> np.uint64(11)) * UNIT
        at = 0
        while at < len(shares) - 1 and left >= shares[at]:
            left -= shares[at]
            at += 1
        return at

    @staticmethod
    def acknowledged(s: Any, now: int, path: int, marked: bool, delay: int) -> None:
        if not marked and now >= s["frozen_until"]:
            s["path"][s["stored"] % KEPT] = path
            s["stored"] += 1
            s["fresh"] = min(s["fresh"] + 1, KEPT)

    @staticmethod
    def lost(s: Any, now: int, path: int) -> None:
        if now >= s["frozen_until"]:
            s["frozen_until"] = now + s["freeze"]
            s["explores_until"] = s["frozen_until"] + s["freeze"]
