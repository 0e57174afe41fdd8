"""Which path each packet of one pair takes, by a chooser."""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from railweave.framework.errors import PluginError, blaming
from railweave.framework.experiment.plugin_calls import no_path
from railweave.framework.hookspecs import PathChooser
from railweave.traffic.rocev2.messages import Message

PICOSECONDS = 1e12
"""In a second."""
_MASK, _GOLDEN, _FIRST, _SECOND = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""64 bits, and the constants of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""


class Choosing(NamedTuple):
    """The chooser of all pairs, its registered name, and the seed of what is drawn."""

    chooser: PathChooser
    name: str
    seed: int

    def of_pair(self, src: int, dst: int) -> "PairChoice":
        return PairChoice(self.chooser, self.name, crc32(b"%d %d %d" % (self.seed, src, dst)) << 32)


class PairChoice:
    """A chooser and its record of one pair. `clock`: declared picoseconds a second of ours. `name`: the
    chooser's, for messages. `seed`: of the pair's draws (SplitMix64: Steele and others, OOPSLA 2014).

    Raises PluginError, with file and line, where the chooser fails, or names a path that is not there.
    """

    def __init__(self, chooser: PathChooser, name: str, seed: int) -> None:
        self._each = getattr(chooser, "each", "packet")  # a stranger's may have none
        self._chooser, self._registered, self._state = chooser, name, seed & _MASK
        self._name = f"chooser {name}"
        with blaming(self._name, PluginError):
            self._record = chooser.start()[0]
        self._shares, self._version = np.ones(1), 0
        self.clock = PICOSECONDS

    def use_paths(self, weights: Sequence[float]) -> None:
        self._shares, self._version = np.array(weights, np.float64) / sum(weights), self._version + 1
        with blaming(self._name, PluginError):
            self._chooser.use_paths(self._record, len(weights))

    def ways(self, message: Message, count: int, now_s: float) -> list[int]:
        """The paths of `count` packets of a message."""
        if self._each != "message":
            return self.take(count, now_s)
        if message.way[0] != self._version:
            message.way = self._version, self.take(1, now_s)[0]
        return [message.way[1]] * count

    def take(self, count: int, now_s: float) -> list[int]:
        """The next `count` paths."""
        now, chosen, n = round(now_s * self.clock), [], len(self._shares)
        with blaming(self._name, PluginError):
            for _ in range(count):
                path = self._chooser.choose(self._record, now, self._draw(), self._shares)
                if (wrong := no_path(self._registered, self._chooser, path, n)) is not None:
                    raise wrong
                chosen.append(int(path))
        return chosen

    def acknowledged(self, path: int, sent_s: float, now_s: float, marked: bool) -> None:
        now, delay = round(now_s * self.clock), round((now_s - sent_s) * self.clock)
        with blaming(self._name, PluginError):
            self._chooser.acknowledged(self._record, now, path, marked, delay)

    def lost(self, path: int, now_s: float) -> None:
        with blaming(self._name, PluginError):
            self._chooser.lost(self._record, round(now_s * self.clock), path)

    def _draw(self) -> np.uint64:
        self._state = mixed = (self._state + _GOLDEN) & _MASK
        mixed = ((mixed ^ mixed >> 30) * _FIRST) & _MASK
        mixed = ((mixed ^ mixed >> 27) * _SECOND) & _MASK
        return np.uint64(mixed ^ mixed >> 31)
