"""Questions of whole sources, and batches laid out in a row; expected values by `all_pairs` and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.model import Path, PathBatch, all_pairs
from railweave.framework.routing.batches import (
    pair_chunks,
    same_paths,
    take,
    whole_sources,
)


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


def test_paths_are_compared_pair_by_pair() -> None:
    """Against the lists of links: equal, other links, another number of hops, and other weights alone."""
    rng = np.random.default_rng(3)
    n_paths, n_hops = rng.integers(0, 3, 40), rng.integers(1, 4, 80)
    pair_start = np.concatenate(([0], np.cumsum(n_paths)))
    hop_start = np.concatenate(([0], np.cumsum(n_hops[: pair_start[-1]])))
    links = rng.integers(0, 5, hop_start[-1])
    batch = PathBatch(
        np.zeros(40, np.int64), np.arange(40), pair_start, np.ones(pair_start[-1]), hop_start, links
    )
    fewer = take(batch, rng.permutation(40))
    others = (
        batch,
        replace(batch, weight=batch.weight / 2),
        replace(batch, links=np.where(np.arange(len(links)) % 9, links, links + 1)),
        replace(fewer, src=batch.src, dst=batch.dst),
    )
    for other in others:
        of_links = [
            [path.links for path in batch.paths(i)] == [path.links for path in other.paths(i)]
            for i in range(40)
        ]
        assert same_paths(batch, other).tolist() == of_links
    assert same_paths(batch, others[1]).all() and not same_paths(batch, others[2]).all()
