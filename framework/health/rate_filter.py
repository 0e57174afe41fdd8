"""The law behind every rate that is measured: a busy machine makes links late, never early."""

import numpy as np

from railweave.framework.model.arrays import Float, Float32, Int32, Int64

STEPS, LEAST = 96, 0.005
"""Rates that are told apart, and the lowest, as a part of the line rate; each is 1.06 times the one below."""
DELAY_S, DELAYED = 0.008, 0.2
"""Mean seconds of a delay that a busy machine causes without a late sample, and the probability of one."""
CHANGE = 0.01
"""Probability that a rate changes from one observation to the next, to any other alike."""
EARLY = 0.003
"""Probability that an observation seems early by more than its error: one packet was not seen in time."""
TAIL = 0.05
"""Probability that is left out on either side of the interval in which a rate is said to lie."""
ALIKE = 0.8
"""Ratio of two rates from which they are alike: less than a margin of scores apart."""
SHARED_S, SHARED = 0.1, 0.05
"""Seconds that a machine may make links of all switches late together before that counts as theirs, and how
many it gets back in each second."""
CLOCK_S = 1e-5
"""Shortest time of an observation, in seconds: errors of its ends may make it seem shorter, or negative."""
NEVER = 1e-30
"""Smallest density, so that what no rate explains leaves the posterior as it was."""


class RateFilter:
    """The service rate of n links: `rate_bps` (n,), the line rate at first; `stated_s` (n,), when each was
    last confirmed or changed, -inf: never; `since_s` (n,), when the evidence began that says it by itself;
    `doubtful` (n,), whether the last observation is 1 / TAIL times as probable at another rate.

    A hidden Markov model per link, over STEPS rates. At rate r, b bits take

        t = b / r + d + e - e'

    with a delay d, which is 0, or exponential beyond what samples came late by and what the links of all
    switches are late by together, and the errors e and e' of the moments at which it ended and began. An end
    at which the next observation begins has one error, so what one takes too long the next makes up for; a
    Kalman filter at every rate follows it. A rate changes with probability CHANGE, so old evidence never
    outweighs new. The stated rate changes no more than it must: into the interval that the posterior leaves
    between its tails.
    """

    def __init__(self, line_bps: Float, switch: Int32 | None = None, delay_s: float = DELAY_S) -> None:
        """`switch` (n,): the one that a link is part of, or -1; None: links are late by themselves."""
        n = len(line_bps)
        self._line_bps, self._delay_s = line_bps, delay_s
        self._group = np.zeros(n) if switch is None else np.where(switch < 0, -1 - np.arange(n), switch)
        self._spare_s, self._last_s = SHARED_S, -np.inf
        self._parts = np.geomspace(LEAST, 1.0, STEPS, dtype=np.float32)
        self._posterior, self._fresh = np.full((2, n, STEPS), 1 / STEPS, np.float32)
        """(n, STEPS): of all that was observed, of a link that began at its line rate; and of what was
        observed since the last time that this alone said one rate."""
        self._posterior[:] = self._parts == 1.0
        self._fresh_s = np.full(n, np.inf)
        self._error_s, self._error_s2 = np.zeros((2, n, STEPS), np.float32)
        """(n, STEPS): what the time at which the last observation ended errs by at each rate, and its
        variance; 0 unless the next one begins then."""
        self.rate_bps, self._part = line_bps.copy(), np.ones(n, np.float32)
        """The rate, and the part of the line rate that it is, to tell exactly whether it changes."""
        self.stated_s, self.since_s = np.full((2, n), -np.inf)
        self.doubtful = np.zeros(n, bool)

    def add(
        self,
        links: Int64,
        began_s: Float,
        now_s: Float,
        bits: Float,
        took_s: Float,
        late_s: Float,
        begin_s2: Float,
        end_s2: Float,
    ) -> None:
        """One observation of each of k `links`, (k,) all: from `began_s` until `now_s`; `bits` took `took_s`;
        samples came late by `late_s` of that. Variances of the times that are not shared with the observation
        before (`begin_s2`), and of the one at which the next begins (`end_s2`), 0 if it begins anew."""
        due_s, took_s = bits / self.rate_bps[links], np.maximum(took_s, CLOCK_S)
        took_s = took_s - self._shared_s(links, took_s, due_s, begin_s2 + 2 * end_s2, float(now_s.max()))
        likelihood = self._likelihood(links, bits, took_s, late_s, begin_s2, end_s2)
        self._fresh_s[links] = np.minimum(self._fresh_s[links], began_s)
        for posterior in (self._posterior, self._fresh):
            after = ((1 - CHANGE) * posterior[links] + CHANGE / STEPS) * likelihood
            posterior[links] = after / after.sum(axis=1, keepdims=True)
        low, high = self._interval(self._posterior[links])
        before = self._part[links]
        self._part[links] = part = np.clip(before, low, high)
        near = (self._parts >= ALIKE * part[:, None]) & (ALIKE * self._parts <= part[:, None])
        alone = np.sum(self._fresh[links], axis=1, where=near) >= 1 - 2 * TAIL
        self.rate_bps[links] = part * self._line_bps[links]
        as_said = likelihood[np.arange(len(links)), np.searchsorted(self._parts, part)]
        self.doubtful[links] = as_said < TAIL * likelihood.max(axis=1)
        stated, settled = alone | (part != before), links[alone]
        self.stated_s[links[stated]] = now_s[stated]
        self.since_s[settled] = self._fresh_s[settled]
        self._fresh_s[settled], self._fresh[settled] = np.inf, 1 / STEPS

    def _shared_s(self, links: Int64, took_s: Float, due_s: Float, error_s2: Float, now_s: float) -> Float:
        """(k,): for how long the machine delayed all links alike: by what two switches are late for sure and
        none contradicts. A link that stands still until before its next departure is not late: an observation
        that may have ended anywhere within some time says nothing of a shorter delay."""
        _, group = np.unique(self._group[links], return_inverse=True)
        late_s, all_s = np.bincount(group, took_s - due_s), np.bincount(group, took_s)
        usual_s, within_s = float(np.median(took_s)), np.bincount(group, np.sqrt(12 * error_s2))
        certain = np.sort((late_s - 2 * np.sqrt(np.bincount(group, error_s2))) / all_s)
        at_most = float(((late_s + within_s) / np.minimum(all_s, usual_s * np.bincount(group))).min())
        share = max(min(float(certain[-2]), at_most), 0.0) if len(certain) > 1 else 0.0
        spare_s = min(self._spare_s + SHARED * (now_s - self._last_s), SHARED_S)
        used_s = min(share * usual_s, spare_s)
        self._spare_s, self._last_s = spare_s - used_s, now_s
        return np.clip(took_s - due_s, 0.0, took_s * used_s / usual_s)

    def _likelihood(
        self, links: Int64, bits: Float, took_s: Float, late_s: Float, begin_s2: Float, end_s2: Float
    ) -> Float32:
        """(k, STEPS): density of each observation at each rate."""
        took, late_by, began, ended, at_line = (
            values[:, None].astype(np.float32)
            for values in (took_s, late_s, begin_s2, end_s2, bits / self._line_bps[links])
        )
        due_s = at_line / self._parts
        steps_s2 = (due_s * (self._parts[-1] / self._parts[-2] - 1)) ** 2 / 12  # of rates between two
        all_s2 = self._error_s2[links] + began + ended + steps_s2
        delay_s = took - due_s + self._error_s[links]
        by_error = np.exp(-(delay_s**2) / (2 * all_s2))
        exact = by_error * ((1 - DELAYED) / np.sqrt(2 * np.pi * all_s2))
        late = delay_s >= 0
        delayed = np.where(late, np.exp(np.minimum(late_by - delay_s, 0.0) / self._delay_s), by_error)
        density = (
            exact + delayed * (DELAYED / (late_by + self._delay_s)) + np.where(late, NEVER, EARLY / took)
        )
        gain, was_exact = ended / all_s2, exact / density
        error_s = gain * delay_s
        self._error_s[links] = was_exact * error_s
        self._error_s2[links] = ended * (1 - gain * was_exact) + was_exact * (1 - was_exact) * error_s**2
        return np.asarray(density)

    def _interval(self, posterior: Float32) -> tuple[Float32, Float32]:
        """(k,) each: the parts of the line rate between which a rate lies, but for the tails."""
        below = np.cumsum(posterior, axis=1)
        return (
            self._parts[np.argmax(below >= TAIL, axis=1)],
            self._parts[np.argmax(below >= 1 - TAIL, axis=1)],
        )
