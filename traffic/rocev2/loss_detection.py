"""What becomes of the packets of a queue pair: acknowledged, or lost on one of its paths."""

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable

from railweave.framework.hookspecs.congestion import OVERTAKEN
from railweave.traffic.packets import PSN_MASK
from railweave.traffic.rocev2.choice import PairChoice
from railweave.traffic.rocev2.congestion import Congestion
from railweave.traffic.rocev2.control import PairControl
from railweave.traffic.rocev2.headers import Heads
from railweave.traffic.rocev2.timing import Timing

_COUNTS, _BEHIND = struct.Struct("!BBH"), struct.Struct("!I")
_NEVER = float("inf")


class PathState:
    """One path to the other end, `at` among those of its time. `newest`: the latest transmission known to
    have arrived over it, at `heard`; `round_trip`: its time; `timeout`, `silence`: once the path is left, how
    long what is still under way there may take, and how long nothing of it may arrive. Packets of one path
    stay in order unless its route changes while they are in flight.
    `arrived`, `lost`, `marked`: packets since `counted`."""

    __slots__ = (
        "arrived", "at", "heads", "heard", "lost", "marked", "newest", "round_trip", "silence", "timeout",
    )  # fmt: skip

    def __init__(self, heads: Heads, at: int) -> None:
        self.heads, self.at = heads, at
        self.newest = 0
        self.round_trip = self.heard = self.silence = 0.0
        self.timeout: float | None = None
        self.arrived = self.lost = self.marked = 0

    def counted(self) -> tuple[int, int, int]:
        """What has become of its packets since the last call: how many are known to have arrived or are
        considered lost, how many were lost, how many came marked."""
        counts = self.arrived + self.lost, self.lost, self.marked
        self.arrived = self.lost = self.marked = 0
        return counts


class LossDetection(ABC):
    """The packets of one pair that are under way; numbers are PSNs that do not wrap. All below `una` have
    arrived; from `next` on, none was sent. `outstanding`: number -> (sent at, transmission, path,
    repeated), in order of transmission; a packet leaves it when acknowledged or declared `lost`. `choice`: of
    paths; None for each in turn. `control`: of window and rate; None for the window that links allow."""

    def __init__(self, choice: PairChoice | None, control: PairControl | None, min_window: int) -> None:
        self.choice = choice
        self.control = control
        self.congestion = Congestion(min_window)
        self.timing = Timing()
        self.transmissions = self.marked = self.cnps = 0
        self._duplicates = 0

    def reset(self, number: int) -> None:
        """Forget everything in flight; the next message starts at `number`."""
        self.una = self.next = number
        self._sacked = 0
        self.outstanding: dict[int, tuple[float, int, PathState, bool]] = {}
        if self.control is not None:
            self.control.forget()
        self.timing.probes = 0
        self.lost: dict[int, PathState] = {}
        self._newest, self._newest_sent_at = self.transmissions, 0.0
        self._echoed = self._probe = 0
        self._repeated: dict[int, tuple[float, int, PathState, bool]] = {}
        self._suspect_at = _NEVER
        self.progress_at = self._active_at = 0.0

    @abstractmethod
    def make_room(self, count: int) -> None:
        """`count` packets are no longer under way: others may be sent."""

    @property
    def idle(self) -> bool:
        return not self.outstanding and not self.lost

    def accept(self, word: int, kind: int, view: memoryview, start: int, end: int, now: float) -> None:
        """Handle an acknowledgement whose payload is view[start:end], as `Receiver.acknowledge` makes it."""
        ahead = ((word & PSN_MASK) + 1 - self.una) & PSN_MASK
        if ahead > self.next - self.una or end - start < _COUNTS.size:
            return  # old and overtaken, or for numbers that were never sent
        duplicates, words, echo = _COUNTS.unpack_from(view, start)
        bitmap_at = start + _COUNTS.size
        marks_at = bitmap_at + 4 * words
        # first: what was sent before the repetition may have arrived long before, its own answers being lost
        if echo != self._echoed:
            self._echoed = echo
            record = self._repeated.pop(echo, None)
            if record is not None:
                self._learn(record, now)
        under_way, lost = len(self.outstanding), len(self.lost)
        upto = self.una + ahead
        marks = (upto, 0)
        if end >= marks_at + _BEHIND.size:
            first = upto - _BEHIND.unpack_from(view, marks_at)[0]
            marks = first, int.from_bytes(view[marks_at + _BEHIND.size : end], "little")
        if ahead:
            self._arrived(range(self.una, upto), now, *marks)
            self.una = upto
            self._sacked >>= ahead
        if words:
            fresh = int.from_bytes(view[bitmap_at:marks_at], "little") & ~self._sacked
            fresh &= (1 << (self.next - upto)) - 1
            self._sacked |= fresh
            beyond = [upto + bit for bit in range(fresh.bit_length()) if fresh >> bit & 1]
            self._arrived(beyond, now, *marks)
        if self.control is not None:
            self.control.acknowledged(now)
        if len(self.outstanding) < under_way or len(self.lost) < lost:
            self.progress_at = self._active_at = now
            self.timing.probes = 0
            self.make_room(under_way - len(self.outstanding))
        if duplicates != self._duplicates:
            self._duplicates = duplicates
            if echo != self._probe:  # nothing overtook what a probe asked for: its answer was lost or late
                self.timing.spurious()
        if self.outstanding:
            self._detect(now)

    def _arrived(self, numbers: Iterable[int], now: float, marks_from: int, marks: int) -> None:
        """Remove packets that arrived, and learn from packets that were sent once. Which copy of a repeated
        packet arrived is unknown until its repetition number is echoed. Bit i of `marks`: number
        `marks_from` + i came marked."""
        take, before, choice, control = self.outstanding.pop, len(self.outstanding), self.choice, self.control
        latest: tuple[float, int, PathState, bool] | None = None
        marked = False
        for number in numbers:
            record = take(number, None)
            if record is None:
                if (late := self.lost.pop(number, None)) is not None:
                    late.lost -= 1
                    late.arrived += 1
                continue
            record[2].arrived += 1
            if marks:
                marked = number >= marks_from and marks >> number - marks_from & 1 == 1
                self.marked += marked
                record[2].marked += marked
            if control is not None:
                control.arrived(number, marked)
            if choice is not None and record[2].timeout is None:
                choice.acknowledged(record[2].at, record[0], now, marked)
            if not record[3]:
                latest = record
                path = record[2]
                if record[1] > path.newest:
                    path.newest, path.round_trip, path.heard = record[1], now - record[0], now
        self.congestion.arrived(before - len(self.outstanding))
        if latest is not None:
            self._learn(latest, now)

    def _learn(self, record: tuple[float, int, PathState, bool], now: float) -> None:
        sent_at, transmission, path, _ = record
        if self.control is not None:
            self.control.took(transmission, now - sent_at)
        if transmission > path.newest:
            path.newest, path.round_trip, path.heard = transmission, now - sent_at, now
        if transmission > self._newest:
            self._newest, self._newest_sent_at = transmission, sent_at
            self.timing.sample(now - sent_at)

    def notified(self, word: int, kind: int, view: memoryview, start: int, end: int, now: float) -> None:
        """Handle a CNP."""
        self.cnps += 1
        if self.control is not None:
            self.control.notified(now)

    def _detect(self, now: float) -> None:
        """Declare lost the packets that a later one on the same path overtook by more than the reordering
        window, and those sent a whole timeout before one that arrived; of paths that were left, if any later
        one arrived, those sent a timeout and a round trip ago, and all after a silence that would make a pair
        probe. Source: RFC 8985, sections 6.2 and 7, per path."""
        self._suspect_at = _NEVER
        expired, lost = self._newest_sent_at - self.timing.timeout, []
        for number, (sent_at, transmission, path, _) in self.outstanding.items():
            if transmission > self._newest:
                break
            if transmission < path.newest:
                due = sent_at + path.round_trip + self.timing.reorder
            elif path.timeout is not None:
                due = min(
                    sent_at + path.timeout + self.timing.smoothed, max(sent_at, path.heard) + path.silence
                )
            else:
                due = now if sent_at < expired else _NEVER
            if due <= now:
                lost.append(number)
            elif due < self._suspect_at:
                self._suspect_at = due
        if lost and self.timing.overloaded:
            self.congestion.lost(self.outstanding[lost[-1]][1], self.transmissions)
        for number in lost:
            self.lost[number] = path = self.outstanding.pop(number)[2]
            self._note_loss(path, now)
        if lost and self.control is not None:
            self.control.lost(now, lost, OVERTAKEN)
        if lost:
            self.timing.lossy()
            self.make_room(len(lost))

    def _note_loss(self, path: PathState, now: float) -> None:
        path.lost += 1
        if self.choice is not None and path.timeout is None:
            self.choice.lost(path.at, now)
