"""1F1B: its order by hand, its length by equations 3 and 5, its critical path without a gap."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from railweave.framework.papers.training.pipeline import critical_path, timed_passes


def test_order_of_three_stages_by_hand() -> None:
    passes = timed_passes(3, 4, 1.0, 2.0)
    order = {
        stage: " ".join(
            f"{'B' if one.backward else 'F'}{one.microbatch}" for one in passes if one.stage == stage
        )
        for stage in range(3)
    }
    assert order == {
        0: "F0 F1 F2 B0 F3 B1 B2 B3",
        1: "F0 F1 B0 F2 B1 F3 B2 B3",
        2: "F0 B0 F1 B1 F2 B2 F3 B3",
    }


@pytest.mark.parametrize(("stages", "more"), [*product((1, 2, 4, 7), (0, 1, 5))])
def test_length_is_that_of_the_equations(stages: int, more: int) -> None:
    """(m + p - 1) t(b) for m >= p; the critical path fills it."""
    microbatches = stages + more
    passes = timed_passes(stages, microbatches, 1.0, 2.0)
    assert max(one.end_s for one in passes) == (microbatches + stages - 1) * 3.0
    chain = critical_path(passes)
    assert chain[0].start_s == 0 and all(a.end_s == b.start_s for a, b in pairwise(chain))
