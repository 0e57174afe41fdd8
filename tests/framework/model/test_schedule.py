"""Compact schedules against lists made one repetition at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import FabricError
from railweave.framework.model import Schedule, Spans, expansion
from railweave.framework.model.routes import starts
from tests.fakes.transfers import transfer_of

Rows = list[list[int]]


def compact(
    ends: list[tuple[int, int]],
    after: Rows,
    *,
    repeat: list[int] | None = None,
    lag: list[int] | None = None,
    chained: Rows | None = None,
    slot: list[int] | None = None,
    spans: Spans | None = None,
) -> Schedule:
    """A schedule over 4 ranks of messages of 4 bytes."""
    n = len(ends)
    src, dst = np.array(ends).reshape(n, 2).T
    chains = chained or [[]] * n
    return Schedule(
        "test",
        4,
        64,
        "int32",
        "sum",
        64,
        src,
        dst,
        np.zeros(n),
        np.zeros(n),
        np.where(src == dst, 0, 4),
        np.zeros(n),
        np.zeros(n),
        starts(np.array([len(row) for row in after], np.int64)),
        np.array([x for row in after for x in row]),
        repeat=np.array(repeat or [1] * n),
        lag=np.array(lag or [1] * n),
        chained_start=starts(np.array([len(row) for row in chains], np.int64)),
        chained=np.array([x for row in chains for x in row]),
        slot=np.array(slot or range(n)),
        spans=spans,
    )


def waits_by_hand(schedule: Schedule) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """(entry, repetition) of each transfer: those that it waits for, by the words of the noun."""
    after = np.split(schedule.after, schedule.after_start[1:-1])
    chains = np.split(schedule.chained, schedule.chained_start[1:-1])
    sends = (schedule.src != schedule.dst).tolist()

    def all_of(entry: int) -> set[tuple[int, int]]:
        if sends[entry]:
            return {(entry, r) for r in range(int(schedule.repeat[entry]))}
        return set().union(*(all_of(before) for before in after[entry].tolist()))

    waits = {}
    for entry in range(schedule.n_entries):
        for r in range(int(schedule.repeat[entry]) if sends[entry] else 0):
            lag = int(schedule.lag[entry])
            chain = {(c, r - lag) for c in chains[entry].tolist()} if r >= lag else set()
            waits[entry, r] = chain.union(*(all_of(before) for before in after[entry].tolist()))
    return waits


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Joins, computations and transfers; each wait is for an earlier slot, each chain inside one slot."""
    ends, after, repeat, lag, chained, slots = [], [], [], [], [], []
    for slot in range(draw(st.integers(1, 4))):
        before = [i for i, of in enumerate(slots) if of < slot]
        times, distance = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        first, members = len(ends), draw(st.integers(1, 3))
        for _ in range(members):
            src = draw(st.integers(0, 3))
            kind = draw(st.sampled_from(["send", "send", "compute", "join"]))
            to = (src + draw(st.integers(1, 3))) % 4
            ends.append({"send": (src, to), "compute": (src, src), "join": (-1, -1)}[kind])
            after.append(sorted(draw(st.sets(st.sampled_from(before), max_size=3))) if before else [])
            repeat.append(times if kind == "send" else 1)
            lag.append(distance)
            slots.append(slot)
        sends = [i for i in range(first, len(ends)) if ends[i][0] != ends[i][1]]
        for i in range(first, len(ends)):
            chained.append(sorted(draw(st.sets(st.sampled_from(sends), max_size=2))) if i in sends else [])
    return compact(ends, after, repeat=repeat, lag=lag, chained=chained, slot=slots)


@settings(max_examples=150)
@given(schedules())
def test_the_list_has_every_repetition_and_its_waits(schedule: Schedule) -> None:
    waits = waits_by_hand(schedule)
    lags, slots = schedule.lag.tolist(), schedule.slot.tolist()
    order = sorted(waits, key=lambda of: (slots[of[0]], of[1] // lags[of[0]], of[0], of[1] % lags[of[0]]))
    listed = schedule.expand()
    assert listed.listed and listed.n_entries == listed.n_transfers == schedule.n_transfers == len(order)
    assert listed.expand() is listed
    for i, (entry, r) in enumerate(order):
        transfer = transfer_of(listed, i)
        assert (transfer.src, transfer.dst) == (schedule.src[entry], schedule.dst[entry])
        assert {order[before] for before in transfer.after} == waits[entry, r]
    for one, other in zip(schedule.pairs(), listed.pairs(), strict=True):
        assert np.array_equal(one, other)


def test_a_ring_of_three_by_hand() -> None:
    """Rank i begins with chunk i of 1, 2 and 3 words and passes on what it received; a chunk each time."""
    ring = np.arange(3)
    spans = Spans(
        offset=np.array([0, 4, 12]),
        size=np.array([4, 8, 12]),
        src_list=np.zeros(3),
        dst_list=np.zeros(3),
        chunks=np.full(3, 3),
        src_turn=ring,
        dst_turn=ring,
        stride=np.full(3, -1),
    )
    schedule = compact(
        [(0, 1), (1, 2), (2, 0)],
        [[], [], []],
        repeat=[2] * 3,
        chained=[[2], [0], [1]],
        slot=[1] * 3,
        spans=spans,
    )
    listed = schedule.expand()
    rows = [(t.src, t.src_offset, t.size, t.after) for t in (transfer_of(listed, i) for i in range(6))]
    assert rows == [
        (0, 0, 4, ()),
        (1, 4, 8, ()),
        (2, 12, 12, ()),
        (0, 12, 12, (2,)),
        (1, 0, 4, (0,)),
        (2, 4, 8, (1,)),
    ]
    assert np.array_equal(listed.src_offset, listed.dst_offset)


def test_shards_begin_with_the_rank_s_own() -> None:
    """Two shards of 8 bytes; rank 1's buffer begins with shard 1, so its shard 0 lies at 8."""
    one = np.ones(1)
    spans = Spans([0], [8], one * 0, one * 0, one, one * 0, one * 0, one, 8, 2, one, one * 0)
    listed = compact([(1, 0)], [[]], spans=spans).expand()
    assert (listed.src_offset[0], listed.dst_offset[0], listed.size[0]) == (8, 0, 8)


def test_a_schedule_too_long_to_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MOST_LISTED", 10)
    barrier = compact([(0, 1), (1, 2), (-1, -1), (0, 1), (1, 2)], [[], [], [0, 1], [2], [2]])
    assert barrier.expand().after.tolist() == [0, 1, 0, 1]
    longer = compact(
        [(0, 1), (1, 2), (-1, -1), (0, 1), (1, 2)], [[], [], [0, 1], [2], [2]], repeat=[2, 1, 1, 2, 1]
    )
    monkeypatch.setattr(expansion, "MOST_LISTED", 7)  # of joins alone: before they are resolved
    with pytest.raises(FabricError, match="4 of them and 4 dependencies"):
        compact([(0, 1), (1, 2), (-1, -1), (0, 1), (1, 2)], [[], [], [0, 1], [2], [2]]).expand()
    monkeypatch.setattr(expansion, "MOST_LISTED", 10)
    with pytest.raises(FabricError, match="6 of them and 9 dependencies, together more than 10"):
        longer.expand()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"repeat": [0, 1, 1]}, "1 time or more"),
        ({"repeat": [1, 1, 2]}, "a computation or join once"),
        ({"lag": [-1, 1, 1]}, "0 or more"),
        ({"seconds": [0, 0, -1.0]}, "0 or more"),
        ({"seconds": [0, 0, np.nan]}, "0 or more"),
        ({"slot": [1, 0, 2]}, "ascend"),
        ({"chained_start": [0, 1, 1, 1], "chained": [2]}, "does not exist"),
        ({"repeat": [3, 1, 1], "chained_start": [0, 1, 1, 1], "chained": [1]}, "does not exist"),
        ({"lag": [0, 1, 1], "chained_start": [0, 1, 1, 1], "chained": [1]}, "itself"),
        ({"symmetries": [[0, 1]]}, "fit together"),
        ({"dst": [1, -1, 2]}, "outside"),
        ({"after": [1], "after_start": [0, 1, 1, 1]}, "later one"),
    ],
)
def test_what_no_schedule_can_mean_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(FabricError, match=says):
        replace(compact([(0, 1), (1, 2), (2, 2)], [[], [], []]), **changes)  # type: ignore[arg-type]
