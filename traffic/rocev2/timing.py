"""How long a pair waits before it considers a packet lost."""

from railweave.framework.model.senders import spread

PROBE_SLACK_S = 0.02
"""Seconds beyond the longest round trip after which a pair probes: a busy machine delays answers."""
REORDER_FLOOR_S = 0.002
"""Least seconds by which packets of different paths may overtake one another before one counts as lost."""
PERSIST = 16
"""Losses after which a reordering window is the least again, unless it was too narrow meanwhile (RFC 8985,
section 6.2)."""
TIMEOUT_FLOOR_S = 0.2
"""Least seconds of a timeout: a process may wait as long for its processor."""
TIMEOUT_CEILING_S = 0.5
"""Silent pairs are probed at least this often (or once per timeout), so that a recovered path is found
soon."""

FORGOTTEN_OVER = 64
"""Round trips over which the longest one is forgotten. Many senders to one receiver fill its queues anew in
every step: packets at its end take many times as long as packets that were acknowledged last."""

SLOWDOWN = 6
"""A full window may take this many times longer than at the declared rate before the timeout expires: a link
degraded to a fifth must not cause retransmissions."""


class Timing:
    """Round-trip estimates of one pair, and the waits that follow from them. Seconds throughout. `drain`: the
    time of a full window at the declared rate; `travel`: that of a packet and its answer on idle links;
    `smoothed`: of late, 0 before the first; `longest`: the longest, forgotten by and by.

    Sources: RFC 6298 (smoothed round trip, timeout, backoff), RFC 8985 (RACK: reordering window, tail probe).
    """

    __slots__ = ("_persist", "_variation", "drain", "longest", "probes", "reorder", "smoothed", "travel")

    def __init__(self) -> None:
        self.smoothed = self._variation = self.longest = self.drain = self.travel = 0.0
        self.reorder = REORDER_FLOOR_S
        self.probes = self._persist = 0

    def sample(self, round_trip: float) -> None:
        """Learn from the round trip of one packet and its acknowledgement."""
        if self.smoothed == 0.0:
            self.smoothed, self._variation = round_trip, round_trip / 2
        self.longest = max(round_trip, self.longest * (1 - 1 / FORGOTTEN_OVER))
        error = round_trip - self.smoothed
        self.smoothed += error / 8
        self._variation += (abs(error) - self._variation) / 4

    def lossy(self) -> None:
        """Packets were lost: what took long may have waited for a lost answer, not in a queue."""
        self.longest = self.smoothed
        self._persist -= 1
        if self._persist <= 0:
            self.reorder = REORDER_FLOOR_S

    def spurious(self) -> None:
        """Widen the reordering window: a packet that was declared lost had only been overtaken."""
        self.reorder = min(self.reorder * 2, max(self.smoothed, REORDER_FLOOR_S))
        self._persist = PERSIST

    @property
    def overloaded(self) -> bool:
        """Whether packets take longer than links account for: the machine holds them up."""
        return self.smoothed > SLOWDOWN * self.drain + self.travel

    @property
    def timeout(self) -> float:
        """The retransmission timeout without backoff."""
        floor = max(TIMEOUT_FLOOR_S, SLOWDOWN * self.drain) + self.travel
        return max(floor, self.smoothed + 4 * self._variation)

    @property
    def wait(self) -> float:
        """Silence after which to probe: first that of the tail probe, which takes a round trip to tell, then
        `backoff`, spread."""
        if self.probes == 0 and self.smoothed > 0:
            longest = max(2 * max(self.smoothed, self.drain + self.travel), self.longest)
            return min(longest + PROBE_SLACK_S, self.timeout)
        return self.backoff * (spread(self.probes) if self.probes else 1.0)

    @property
    def backoff(self) -> float:
        """The timeout, doubled for every probe after the first."""
        doublings = min(max(self.probes - 1, 0), 30)
        return min(self.timeout * 2.0**doublings, max(TIMEOUT_CEILING_S, self.timeout))
