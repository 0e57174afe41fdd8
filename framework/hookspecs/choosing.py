"""Which of its paths each packet of a pair takes."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.parameters import Value


class PathChooser(Configurable, Protocol):
    """Chooses a path for every packet that a pair sends, or for every message, told of what became of those
    before.

    What a chooser knows of a pair is a record, `state`, of numbers and fixed arrays of them. The four
    functions are plain: no `self`, nothing but arithmetic on their arguments, no division by zero. So an
    engine may compile them (numba) and must see equal bits; a test of `plugin check` does. `s` is the record
    of the pair, read and written by name (`s["last"]`); `now` is the time in declared picoseconds; a path is
    a number, 0 up to the paths of the pair. All are called in the order of what happens.

    `each`: what it is asked for; the packets of a "message" stay together, unless paths change meanwhile.
    `keeps_shares`: whether paths get their shares of the packets, exactly or in the mean, so that it is known
    what an iteration should take.
    `needs`: "mark" for a chooser that is of no use without marks of congestion on packets.
    """

    state: np.dtype[np.void]
    each: Literal["packet", "message"] = "packet"
    keeps_shares: bool = False
    needs: tuple[str, ...] = ()

    @abstractmethod
    def start(self) -> NDArray[np.void]:
        """(1,): the record of a pair before its first packet, with the options in it."""

    @staticmethod
    @abstractmethod
    def use_paths(s: Any, n_paths: int) -> None:
        """The pair has these paths from now on, at least one; called first, and when paths or shares change.
        What was known of the old ones is no longer true of those with their numbers."""

    @staticmethod
    @abstractmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        """The path of the next packet or message. `shares` (n_paths,): what the router gives each path, 1 in
        all; `draw`: 64 random bits of this call's own, so that a run can be repeated."""

    @staticmethod
    def acknowledged(s: Any, now: int, path: int, marked: bool, delay: int) -> None:
        """A packet has arrived that was sent over one of the present paths, `delay` picoseconds before this
        was heard of; `marked`: it met congestion. Once a packet."""
        return

    @staticmethod
    def lost(s: Any, now: int, path: int) -> None:
        """A packet sent over one of the present paths is considered lost."""
        return


@runtime_checkable
class ChoosesPaths(Protocol):
    """What a transport has besides if its packets take paths one by one. Optional: without it no chooser can
    be used but `in-turn`, which all transports follow: shares exact after any number of packets."""

    def use_chooser(self, name: str, options: Mapping[str, Value], seed: int) -> None:
        """Choose paths so, by the register of choosers; called before `start`."""
        ...
