"""What loss costs the transport: the one place where lost packets become a score."""

import numpy as np

from railweave.framework.model.arrays import Float

IMPROBABLE = 1e-4
"""Probability of a run of packets without a loss, at the stated loss, below which the loss is over."""
WAIT_PACKETS = 6.0
"""Packet times that a step waits for a lost packet, besides those in which it is sent again."""
MESSAGE_WAITS_PACKETS = 72.0
"""Packet times that a message waits for what a link loses, over loss / (1 - loss). Measured with the
transport in virtual time, rings of messages of 4, 16 and 64 packets, losses of 1 to 10 %: 49 to 86."""


def speed_at_loss(loss: Float) -> Float:
    """The speed that a link keeps at these shares of lost packets (0..1): (1 - loss) / (1 + 6 loss).

    A share `loss` of the link carries what is lost, and every loss holds up the step that needs the packet
    until it is missed and repeated. Measured with the transport, steps of 16 packets of 4 KiB, on links of 1
    and 4 Mb/s: a ring takes 1.09, 1.21, 1.5 and 2.7 times as long at losses of 1, 3, 10 and 20 %; this says
    1.07, 1.22, 1.8 and 2.8. Longer steps wait less (64 packets: 1.07 at 3 %), shorter ones longer.
    """
    return np.asarray((1.0 - loss) / (1.0 + WAIT_PACKETS * loss))


def passes_at_loss(capacity_bps: Float, loss: Float, packet_bits: float) -> tuple[Float, Float]:
    """What links (L,) pass at these shares of lost packets: the rate that what is sent again leaves, and the
    seconds that a message waits for it, whatever its length. Other messages pass meanwhile.

    So a score, which is that of a step of 16 packets on a link that waits for nothing else, says too much of
    a single cable: a ring of four takes 1.34 times as long if one of its links loses 20 %, and 2.9 if all do.
    """
    rate_bps = capacity_bps * (1.0 - loss)
    waits_bits = MESSAGE_WAITS_PACKETS * loss * packet_bits
    wait_s = np.divide(waits_bits, rate_bps, out=np.zeros_like(rate_bps), where=rate_bps > 0)
    return np.asarray(rate_bps), np.asarray(wait_s)


def packets_to_end(loss: Float) -> Float:
    """How many packets in a row without a loss end a stated loss (0..1): infinitely many where it is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(IMPROBABLE) / np.log1p(-np.asarray(loss)))
