"""One size, or a sweep of them as nccl-tests has it: `64K:4M:x2` or `64K:1M:+64K`."""

from __future__ import annotations

from railweave.framework.errors import ExperimentError
from railweave.framework.parameters import Parameter, parse_bytes
from railweave.framework.quantities import size

SIZE = Parameter("size", 1 << 20, "bytes", "size of the collective, in nccl-tests' meaning", minimum=0)
MOST = 64
"""Sizes of one sweep at most: each is a schedule of its own."""


def parse_sizes(given: object) -> tuple[int, ...]:
    """The sizes in bytes, ascending. Raises ExperimentError saying what is wrong."""
    if not isinstance(given, str) or ":" not in given:
        return (_bytes(given),)
    parts = given.split(":")
    if len(parts) != 3:
        raise ExperimentError(f"expects FROM:TO:xFACTOR or FROM:TO:+STEP, such as 64K:4M:x2 (got {given!r}).")
    low, high, step = _bytes(parts[0]), _bytes(parts[1]), parts[2]
    if low > high:
        raise ExperimentError(f"begins at {parts[0]} and ends before it, at {parts[1]}. Swap them.")
    if step.startswith("x"):
        factor = int(step[1:]) if step[1:].isascii() and step[1:].isdecimal() else 0
        if factor < 2 or low == 0:
            raise ExperimentError(f"x takes a whole factor from 2 on, and a size above 0 (got {given!r}).")
        found = [low]
        while found[-1] * factor <= high and len(found) <= MOST:
            found.append(found[-1] * factor)
    elif step.startswith("+") and (add := _bytes(step[1:])) > 0:
        found = list(range(low, min(high, low + MOST * add) + 1, add))
    else:
        raise ExperimentError(f"steps by xFACTOR or +STEP, such as x2 or +64K (got {step!r}).")
    if len(found) > MOST:
        raise ExperimentError(f"holds more than {MOST} sizes (got {given!r}). Take larger steps.")
    return tuple(found)


def canonical(given: object) -> int | str:
    """The same in base units: bytes, or the sweep as text with them."""
    sizes = parse_sizes(given)
    if not isinstance(given, str) or ":" not in given:
        return sizes[0]
    low, high, step = given.split(":")
    last = f"+{parse_bytes(step[1:])}" if step.startswith("+") else step
    return f"{parse_bytes(low)}:{parse_bytes(high)}:{last}"


def spoken(value: int | str) -> int | str:
    """As a person writes it: `1M`, `64K:4M:x2`; reads back as the very same."""
    if not isinstance(value, str):
        return size(value)
    low, high, step = value.split(":")
    last = f"+{size(int(step[1:]))}" if step.startswith("+") else step
    return f"{size(int(low))}:{size(int(high))}:{last}"


def _bytes(given: object) -> int:
    try:
        return int(SIZE.parse(given))
    except ExperimentError:
        raise ExperimentError(f"expects {SIZE.expects} (got {given!r}).") from None
