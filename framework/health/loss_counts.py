"""Which share of its packets every link loses, from counts of packets sent and packets that arrived."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.health.loss import IMPROBABLE, packets_to_end
from railweave.framework.model import Measurement
from railweave.framework.model.arrays import ArrayNoun, Float

BLOCK_PACKETS, EVIDENT_LOST = 512, 8
"""Packets of a block from which its loss is stated, and lost ones that are enough before that."""
PRIOR_PACKETS = 100
"""A link is assumed to lose one packet in this number before any was counted."""
ONE_OF_MANY = 1e-6
"""Probability below which a block begins anew: every interval with packets asks, 40 times a second, and at
1e-4 a link whose loss is steady began anew every few minutes."""
ROUNDING_PACKETS = 1e-6
"""Counts of a model are differences of sums of parts of packets."""
HALF = 0.5
"""A loss that begins may be as large; a larger one is as good as a total one."""


@dataclass(frozen=True, eq=False)
class LossCounts(ArrayNoun):
    """What the loss of each link is stated from.

    A block of packets states it, from the 8th lost one on (exact to a third then); of 512 packets half the
    weight goes on, so that what is stated later is exact to a tenth at 20 %. A block begins anew where
    more packets are lost than chance explains at the loss of those before. A run of
    packets without a loss that contradicts what was stated ends it; a run of lost packets alone is total loss
    once it contradicts what was stated before: at once if it does so at a loss of half too, else with one
    that is lost after a while. Packets count once it is known whether they arrived.

    `block` (2, n_links): packets and lost ones; `recent`, those of them since more were lost than before;
    `unbroken` (n_links,), packets since the last lost one; `unheard`, lost ones since the last that arrived,
    for `unheard_s`, and the loss of `before`; `uncounted`, packets since arrivals were last counted.
    """

    block: Float
    recent: Float
    unbroken: Float
    unheard: Float
    unheard_s: Float
    before: Float
    uncounted: Float

    @classmethod
    def none(cls, n_links: int) -> Self:
        """Before any packet."""
        return cls(*np.zeros((2, 2, n_links)), *np.zeros((5, n_links)))

    def after(self, new: Measurement, stated: Float, lasting_s: float) -> tuple["LossCounts", Float]:
        """The counts after one more interval, and the loss (n_links,) that they state; `stated` so far.
        `lasting_s`: how long that while is at least."""
        counted, uncounted = ~np.isnan(new.lost), self.uncounted + new.sent_packets
        sent, lost = self.judged(new)
        block, recent = self._since_more(np.array([sent, lost]))
        arrived = sent - lost > ROUNDING_PACKETS
        unbroken = np.where(lost > 0, 0.0, self.unbroken + sent)
        unheard = np.where(arrived, 0.0, self.unheard + lost)
        goes_on = (self.unheard > 0) & (unheard > 0)
        unheard_s = np.where(goes_on, self.unheard_s + new.dt_s, 0.0)
        before = np.fmax(np.where(stated < 1, stated, 0.0), _assumed(self.block))
        before = np.where(self.unheard > 0, self.before, before)
        at_most = np.where(unheard_s < lasting_s, np.fmax(before, HALF), before)
        # a lost one after a while is evidence, and that while by itself is not: nothing may have been sent
        silent = (at_most**unheard < IMPROBABLE) & ((lost > 0) | (stated == 1))
        share = np.minimum(block[1], block[0] ** 2 / (block[0] + 1)) / np.maximum(block[0], 1.0)
        # one packet that arrives ends a total loss, and says no more than that
        healed = unbroken > packets_to_end(np.where(stated < 1, stated, share))
        full = block[0] >= BLOCK_PACKETS
        says = full | (block[1] >= EVIDENT_LOST) | ((stated == 1) & arrived)
        loss = np.where(silent, 1.0, np.where(healed, 0.0, np.where(says, share, stated)))
        block = np.where(healed, 0.0, np.where(full, block / 2, block))
        recent = np.where(healed | full, 0.0, recent)
        uncounted = np.where(counted | ~new.up, 0.0, uncounted)
        return LossCounts(block, recent, unbroken, unheard, unheard_s, before, uncounted), loss

    def judged(self, new: Measurement) -> Float:
        """(2, n_links): packets that one more interval shows to have arrived or not, and those lost
        among them. What is lost on a link that is known to be down says nothing of it when it is up."""
        counted = ~np.isnan(new.lost) & new.up
        sent = new.counted if len(new.counted) else self.uncounted + new.sent_packets
        return np.where(counted, np.stack((sent, new.lost)), 0.0)

    def _since_more(self, now: Float) -> tuple[Float, Float]:
        """`block` and `recent` with the packets and lost ones of `now`. The block begins anew where chance
        explains that many lost ones with less than ONE_OF_MANY (Chernoff's bound)."""
        before, recent = _assumed(self.block - self.recent), self.recent + now
        recent = np.where(recent[1] > before * recent[0], recent, 0.0)
        share = recent[1] / np.maximum(recent[0], 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            divergence = np.where(share > 0, share * np.log(share / before), 0.0)
            divergence += np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - before)), 0.0)
        anew = recent[0] * divergence > -np.log(ONE_OF_MANY)
        return np.where(anew, recent, self.block + now), np.where(anew, 0.0, recent)


def _assumed(block: Float) -> Float:
    """(n_links,): the loss to expect of links with these packets and lost ones."""
    return np.asarray((block[1] + 1) / (block[0] + PRIOR_PACKETS))
