"""How a transport's senders behave, as far as an engine that computes can use it."""

from dataclasses import dataclass, replace

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Float


@dataclass(frozen=True, eq=False, slots=True)
class Senders(ArrayNoun):
    """Of each of P pairs, (P,): `window_bits`, the most it has in flight; `nic_bits`, the most it has in the
    queues of its NIC, infinite where that is its window; `stored_bits`, what a switch receives of a packet
    before it sends it on; `ack_every`, packets for each acknowledgement.

    A pair without an answer sends a packet again after `first_s`, then after `timeout_s`, and each time waits
    twice as long, `most_s` at most. The run fails once it has had no answer for `dead_after_s`.
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
        after_s, step_s, count = self.first_s.copy(), self.timeout_s.copy(), np.zeros(len(silent_s))
        while np.any(late := after_s < silent_s):
            after_s[late] += step_s[late]
            count += late
            step_s = np.minimum(2 * step_s, self.most_s)
        return after_s, count
