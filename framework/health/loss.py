"""What loss costs the transport: the one place where lost packets become a score."""

import numpy as np

from railweave.framework.model.arrays import Float

IMPROBABLE = 1e-4
"""Probability of a run of packets without a loss, at the stated loss, below which the loss is over."""
WAIT_PACKETS = 6.0
"""Packet times that a step waits for a lost packet, besides those in which it is sent again."""


def speed_at_loss(loss: Float) -> Float:
    """The speed that a link keeps at these shares of lost packets (0..1): (1 - loss) / (1 + 6 loss).

    A share `loss` of the link carries what is lost, and every loss holds up the step that needs the packet
    until it is missed and repeated. Measured with the transport, steps of 16 packets of 4 KiB, on links of 1
    and 4 Mb/s: a ring takes 1.09, 1.21, 1.5 and 2.7 times as long at losses of 1, 3, 10 and 20 %; this says
    1.07, 1.22, 1.8 and 2.8. Longer steps wait less (64 packets: 1.07 at 3 %), shorter ones longer.
    """
    return np.asarray((1.0 - loss) / (1.0 + WAIT_PACKETS * loss))


def packets_to_end(loss: Float) -> Float:
    """How many packets in a row without a loss end a stated loss (0..1): infinitely many where it is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(IMPROBABLE) / np.log1p(-np.asarray(loss)))
