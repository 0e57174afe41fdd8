"""How a transport's senders behave, as far as an engine that computes can use it."""

from dataclasses import dataclass, replace

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Float

GOLDEN = (5**0.5 - 1) / 2
"""The golden section, whose multiples leave no large gaps between their fractional parts."""


def spread(tries: int) -> float:
    """The factor, 0.5 to 1.5, of a wait after that many tries in vain; 1 after the first. Waits of one length
    would meet what comes and goes at the same moment of its period every time, and in vain.

    >>> [round(spread(tries), 2) for tries in (1, 2, 3, 4)]
    [1.0, 0.62, 1.24, 0.85]
    """
    return 0.5 + ((tries - 1) * GOLDEN + 0.5) % 1


@dataclass(frozen=True, eq=False, slots=True)
class Senders(ArrayNoun):
    """Of each of P pairs, (P,): `window_bits`, the most it has in flight; `nic_bits`, the most it has in the
    queues of its NIC, infinite where that is its window; `stored_bits`, what a switch receives of a packet
    before it sends it on; `ack_every`, packets for each acknowledgement.

    A pair without an answer sends a packet again after `first_s`, then after `timeout_s`, and each time waits
    twice as long, `most_s` at most; all but the first wait times `spread`. The run fails once it has had no
    answer for `dead_after_s`.
    """

    window_bits: Float
    nic_bits: Float
    stored_bits: Float
    ack_every: Float
    first_s: Float
    timeout_s: Float
    most_s: Float
    dead_after_s: Float

    def scaled(self, factor: float) -> "Senders":
        """The same with times that are multiplied."""
        times = ("first_s", "timeout_s", "most_s", "dead_after_s")
        return replace(self, **{name: factor * getattr(self, name) for name in times})

    def unstored(self) -> "Senders":
        """The same over switches that send a packet on before they have all of it, or, as token buckets, as
        soon as those before it are paid for."""
        return replace(self, stored_bits=np.zeros(len(self.stored_bits)))

    def tries(self, silent_s: Float) -> tuple[Float, Float]:
        """(P,) each: after how much silence each of them tries its path, at `silent_s` or next after that,
        and how often it has tried it until then."""
        after_s, step_s, tries = self.first_s.copy(), self.timeout_s.copy(), 1
        count = np.zeros(len(silent_s))
        while np.any(late := after_s < silent_s):
            after_s[late] += spread(tries) * step_s[late]
            count += late
            step_s, tries = np.minimum(2 * step_s, self.most_s), tries + 1
        return after_s, count
