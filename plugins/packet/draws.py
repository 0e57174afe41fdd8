"""Keys of random draws: hashes of what they are for."""

_MASK, _GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15
"""64 bits, and the increment of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""


def mixed(z: int) -> int:
    """As `queues.mixed`, of a Python number."""
    z &= _MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
    return z ^ z >> 31


def key_of(seed: int, job: int, src: int, dst: int) -> int:
    """Of the draws of a pair: they depend on what it is, not on what else there is."""
    key = 0
    for part in (seed, job, src, dst):
        key = mixed(key + _GOLDEN * (part + 1))
    return key


def of_iteration(number: int) -> int:
    """What changes a pair's key in an iteration, so that none draws as another."""
    return mixed(_GOLDEN * number)
