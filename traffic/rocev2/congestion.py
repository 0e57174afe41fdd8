"""How much of its window a pair uses where the machine, not the fabric, limits what gets through."""

HALF = 0.5
"""What a loss leaves of the window (RFC 5681, equation 4)."""


class Congestion:
    """Additive increase and multiplicative decrease of one pair's window, in packets (RFC 5681, section 3.1).

    The queues of shaped links have room for the windows of all pairs, so what is lost there is lost by a
    fault, and sending less would not help. Where round trips take longer than links account for
    (`Timing.overloaded`), packets wait in the machine's switches, and are lost because buffers are full. Then
    sending less is all that helps: a packet that is lost has cost as much as one that arrives.

    `limit`: the window that links allow; `window`: the part of it in use, `least` at least.
    """

    __slots__ = ("_recovery", "_window", "least", "limit", "window")

    def __init__(self, least: int) -> None:
        self.least = self.limit = self.window = least
        self._window, self._recovery = float(least), 0

    def allow(self, limit: int) -> None:
        """Set the window that links allow. One that was in use as a whole still is."""
        self._set(float(limit) if self.window == self.limit else min(self._window, limit), limit)

    def arrived(self, packets: int) -> None:
        """Grow by a packet for every window that arrived."""
        if self.window < self.limit:
            self._set(self._window + packets / self._window, self.limit)

    def lost(self, transmission: int, transmissions: int) -> None:
        """Shrink for the loss of a `transmission`, once for all that were under way: later losses count from
        the number of `transmissions` so far."""
        if transmission > self._recovery:
            self._recovery = transmissions
            self._set(self._window * HALF, self.limit)

    def silent(self) -> None:
        """Begin anew: nothing got through for more than a timeout."""
        self._set(0.0, self.limit)

    def _set(self, window: float, limit: int) -> None:
        self.limit = limit
        self._window = min(max(window, self.least), limit)
        self.window = int(self._window)
