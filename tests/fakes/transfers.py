"""The entries of a listed schedule as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.framework.model import Schedule


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message. Bytes throughout."""

    src: int
    dst: int
    src_offset: int
    dst_offset: int
    size: int
    reduce: bool
    after: tuple[int, ...]


def transfer_of(schedule: Schedule, i: int) -> Transfer:
    """Entry `i`."""
    return Transfer(
        int(schedule.src[i]),
        int(schedule.dst[i]),
        int(schedule.src_offset[i]),
        int(schedule.dst_offset[i]),
        int(schedule.size[i]),
        bool(schedule.reduce[i]),
        tuple(schedule.after[schedule.after_start[i] : schedule.after_start[i + 1]].tolist()),
    )
