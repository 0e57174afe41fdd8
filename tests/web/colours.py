"""Colours as people see them: contrast, and distance with and without colour blindness."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# IEEE TVCG 15(6), 2009, severity 1.0; of linear RGB
SIGHTS = {
    "all cones": np.eye(3),
    "no L cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no M cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no S cones": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(css: str) -> Array:
    """Linear RGB of `rgb(1, 2, 3)`."""
    parts = np.array([float(word) for word in re.findall(r"[\d.]+", css)[:3]]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it, 1 to 21."""
    low, high = sorted(float(TO_XYZ[1] @ linear(css)) for css in (one, other))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, sight: str) -> float:
    """CIE 1976 colour difference; about 2.3 is just noticeable."""
    return float(np.linalg.norm(_lab(one, sight) - _lab(other, sight)))


def _lab(css: str, sight: str) -> Array:
    xyz = TO_XYZ @ np.clip(SIGHTS[sight] @ linear(css), 0, 1) / WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
