"""Searches kept and forgotten; hops and ties are tested through the router `shortest`."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.routing.search import Search
from railweave.topologies.torus import Torus


@given(st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=25)
def test_few_kept_searches_give_the_paths_of_all(kept: int, seed: int) -> None:
    """Pairs asked in any portions, with room for some destinations only, against one search for all."""
    fabric, rng = Torus().build({"shape": "3x3"}), np.random.default_rng(seed)
    down = rng.random(fabric.n_links) < 0.2
    whole, parts = Search(fabric, down), Search(fabric, down, kept=kept)
    for _ in range(4):
        src, dst = rng.integers(0, 9, (2, int(rng.integers(1, 40))))
        assert whole.paths(src, dst) == parts.paths(src, dst)
