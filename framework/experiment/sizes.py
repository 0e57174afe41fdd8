"""One size, or a sweep of them as nccl-tests has it: `64K:4M:x2` or `64K:1M:+64K`."""

from collections.abc import Callable

from railweave.framework.errors import ExperimentError
from railweave.framework.parameters import Parameter
from railweave.framework.units import parse_bytes, size

SIZE = Parameter(
    "size", 1 << 20, "bytes",
    "Size of the collective in nccl-tests' meaning: 64K, 1M, 2G (binary). "
    "64K:4M:x2 and 64K:1M:+64K are sweeps.",
    minimum=0,
)  # fmt: skip
MOST = 64
"""Sizes of one sweep at most: each is a schedule of its own."""


def parse_sizes(value: object) -> tuple[int, ...]:
    """The sizes in bytes, ascending. Raises ExperimentError saying what is wrong."""
    if not isinstance(value, str) or ":" not in value:
        return (_bytes(value),)
    parts = value.split(":")
    if len(parts) != 3:
        raise ExperimentError(f"expects FROM:TO:xFACTOR or FROM:TO:+STEP, such as 64K:4M:x2 (got {value!r}).")
    low, high, step = _bytes(parts[0]), _bytes(parts[1]), parts[2]
    if low > high:
        raise ExperimentError(f"begins at {parts[0]} and ends before it, at {parts[1]}. Swap them.")
    if step.startswith("x"):
        factor = int(step[1:]) if step[1:].isascii() and step[1:].isdecimal() else 0
        if factor < 2 or low == 0:
            raise ExperimentError(f"x takes a whole factor from 2 on, and a size above 0 (got {value!r}).")
        sizes = [low]
        while sizes[-1] * factor <= high and len(sizes) <= MOST:
            sizes.append(sizes[-1] * factor)
    elif step.startswith("+") and (add := _bytes(step[1:])) > 0:
        sizes = list(range(low, min(high, low + MOST * add) + 1, add))
    else:
        raise ExperimentError(f"steps by xFACTOR or +STEP, such as x2 or +64K (got {step!r}).")
    if len(sizes) > MOST:
        raise ExperimentError(f"holds more than {MOST} sizes (got {value!r}). Take larger steps.")
    return tuple(sizes)


def canonical(value: object) -> int | str:
    """A size in bytes, or the text of a sweep in bytes."""
    sizes = parse_sizes(value)
    return _respelt(value, parse_bytes) if isinstance(value, str) and ":" in value else sizes[0]


def spoken(value: int | str) -> int | str:
    """As a person writes it: `1M`, `64K:4M:x2`; reads back as the same value."""
    return _respelt(value, lambda text: size(int(text))) if isinstance(value, str) else size(value)


def _respelt(sweep: str, spelling: Callable[[str], object]) -> str:
    low, high, step = sweep.split(":")
    last = f"+{spelling(step[1:])}" if step.startswith("+") else step
    return f"{spelling(low)}:{spelling(high)}:{last}"


def _bytes(value: object) -> int:
    return int(SIZE.parse(value))
