"""Questions of whole sources, and batches laid out in a row; expected values by `all_pairs` and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.model import Path, PathBatch, all_pairs
from railweave.framework.routing.batches import MOST_COUNTED, counting, pair_chunks, whole_sources


@given(st.integers(1, 12), st.integers(1, 150))
def test_chunks_are_all_pairs_in_order(n: int, chunk: int) -> None:
    parts = list(pair_chunks(n, chunk))
    assert all(0 < len(src) == len(dst) <= chunk for src, dst in parts)
    empty = np.empty(0, np.int64)
    src, dst = (np.concatenate([empty, *(part[end] for part in parts)]) for end in (0, 1))
    assert np.array_equal((src, dst), all_pairs(n))
    if n > 1 and chunk >= n - 1:
        found = [whole_sources(n, src, dst) for src, dst in parts]
        assert np.concatenate([x for x in found if x is not None]).tolist() == list(range(n))


@given(st.integers(3, 9), st.data())
def test_whole_sources_are_those_and_no_others(n: int, data: st.DataObject) -> None:
    sources = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    src = np.repeat(sources, n - 1)
    dst = np.concatenate([[x for x in range(n) if x != source] for source in sources])
    found = whole_sources(n, src, dst)
    assert found is not None and found.tolist() == sources
    assert whole_sources(n, src[1:], dst[1:]) is None
    a, b = data.draw(st.tuples(*[st.integers(0, len(src) - 1)] * 2).filter(lambda x: dst[x[0]] != dst[x[1]]))
    order = np.arange(len(src))
    order[[a, b]] = b, a
    assert whole_sources(n, src[order], dst[order]) is None
    assert whole_sources(n, src[:0], dst[:0]) is None


@pytest.mark.parametrize("size", [0, 1, 2, 1000, MOST_COUNTED, MOST_COUNTED + 1])
def test_counting(size: int) -> None:
    assert np.array_equal(counting(size), np.arange(size))


def test_in_a_row_a_pair_cut_off_has_no_path() -> None:
    batch = PathBatch.in_row(
        np.array([0, 0, 1]),
        np.array([1, 2, 0]),
        np.array([0, 2, 2, 3]),
        np.array([5, 6, 7], np.int32),
        np.array([0, 1, 0], np.int32),
        reachable=np.array([True, False, True]),
    )
    assert [batch.paths(pair) for pair in range(3)] == [
        (Path((5, 6), vc=(0, 1)),),
        (),
        (Path((7,), vc=(0,)),),
    ]
