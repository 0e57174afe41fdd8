"""Slices that cubes allow: any cubes that are up where circuits join them, whole blocks in a fixed pod."""

from dataclasses import replace

import numpy as np

from railweave.framework.model.arrays import Float
from railweave.framework.papers.fleet.down_times import DownTimes, counts, joined


def slice_sizes(cubes: int) -> list[int]:
    """Powers of two up to the pod, in cubes."""
    return [1 << power for power in range(cubes.bit_length())]


def up_share(cubes_down: DownTimes, cubes: int, least: int, window: float) -> Float:
    """(replicas,): share of the time in which at least `least` of the pod's cubes are up."""
    up = cubes - np.arange(cubes + 1)
    return counts(cubes_down).mean((up >= least).astype(float), window)


def reconfigurable_share(cubes_down: DownTimes, cubes: int, size: int, window: float) -> Float:
    """(replicas,): mean share of the pod's cubes that are in whole slices of `size` cubes, any of them."""
    up = cubes - np.arange(cubes + 1)
    return counts(cubes_down).mean(up // size * size / cubes, window)


def fixed_share(cubes_down: DownTimes, cubes: int, size: int, window: float) -> Float:
    """(replicas,): the same in a pod with fixed wiring, where a slice is one of the blocks that tile it.

    Cubes are numbered such that `size` consecutive ones, from a multiple of `size`, are a block: in Morton
    order for powers of two.
    """
    blocks = cubes // size
    inside = cubes_down.select(cubes_down.unit < blocks * size)
    down_days = joined(replace(inside, unit=inside.unit // size)).days(window)
    return (blocks - down_days / window) * size / cubes


def expected_fixed_share(cubes: int, size: int, cube_up: float) -> float:
    """The expectation of `fixed_share`: a block of n components is whole with a^n."""
    return float(cubes // size * size / cubes * cube_up**size)


def up_chances(cubes: int, cube_up: float) -> Float:
    """(cubes + 1,): probability that k independent cubes are up, binomial. Any pod's: in logarithms."""
    up = np.arange(cubes + 1)
    if cube_up in (0, 1):
        certain: Float = (up == cubes * cube_up).astype(float)
        return certain
    factorial = np.append(0.0, np.cumsum(np.log(up[1:])))
    ways = factorial[-1] - factorial - factorial[::-1]
    chances: Float = np.exp(ways + up * np.log(cube_up) + up[::-1] * np.log1p(-cube_up))
    return chances


def expected_reconfigurable_share(cubes: int, size: int, cube_up: float) -> float:
    """The expectation of `reconfigurable_share`: k cubes make floor(k / size) slices."""
    in_slices = np.arange(cubes + 1) // size * size / cubes
    return float(up_chances(cubes, cube_up) @ in_slices)


def availability(rate_per_day: float, repair_days: float) -> float:
    """Of one component in the long run: MTBF / (MTBF + MTTR)."""
    return 1 / (1 + rate_per_day * repair_days)
