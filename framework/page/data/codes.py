"""Figures as bytes, in fixed steps that no run changes, so that a live page and a report agree (codes.js).

score, load, paused, 200 steps for 1: 0 to 200 (load to 250: 1.25 times the healthy rate).
loss: (b / 200)^2, so that small shares stay apart.
amount (queues, traffic): 64 (e^(b/16) - 1) bytes, steps of 6 %; 254 is 502 MB.
255 is not known.
"""

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Float

Bytes = NDArray[np.uint8]
UNKNOWN = 255
"""The byte of a value that is not known."""
STEPS = 200
"""Steps from 0 to 1, 0.005 each: of scores as of square roots of a loss."""
SMALLEST_BYTES, PER_E = 64.0, 16.0
"""Bytes that are 11 steps from 0, and steps of a factor of e: the largest is 0.5 GB, with 6 % between two."""


def ratio(values: NDArray[np.floating]) -> Bytes:
    """Scores, loads and shares of time."""
    return _bytes(STEPS * values, 250)


def share(values: NDArray[np.floating]) -> Bytes:
    """Loss, 0..1."""
    with np.errstate(invalid="ignore"):
        return _bytes(STEPS * np.sqrt(values), STEPS)


def amount(values: NDArray[np.floating]) -> Bytes:
    """Bytes."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _bytes(PER_E * np.log1p(values / SMALLEST_BYTES), 254)


def _bytes(values: NDArray[np.floating], most: int) -> Bytes:
    """Rounded into 0..most; NaN is UNKNOWN."""
    rounded: Float = np.clip(np.rint(values), 0, most)
    return np.where(np.isnan(values), UNKNOWN, rounded).astype(np.uint8)
