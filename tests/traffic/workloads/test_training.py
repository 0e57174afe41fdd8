"""The order of passes against the figures of Narayanan et al. (SC '21)."""

from __future__ import annotations

import pytest

from railweave.framework.papers.training.pipeline import Pass, one_forward_one_backward


def words(passes: list[Pass]) -> str:
    """F0 B0 ..., with the chunk as a letter behind where there are several."""
    return " ".join(f"{'FB'[not one.forward]}{one.microbatch}{'abc'[one.chunk]}" for one in passes)


def test_plain_order_is_figure_4() -> None:
    """Four stages, eight microbatches: the first stage runs four ahead, the last alternates from the
    start."""
    assert words(one_forward_one_backward(0, 4, 8)) == (
        "F0a F1a F2a F3a B0a F4a B1a F5a B2a F6a B3a F7a B4a B5a B6a B7a"
    )
    assert words(one_forward_one_backward(3, 4, 8)) == " ".join(f"F{i}a B{i}a" for i in range(8))


def test_interleaved_order_is_figure_4() -> None:
    """Two chunks (dark and light in the figure): p microbatches of the first, then of the second. Before the
    first backward pass come 2 (p - stage - 1) + (v - 1) p forward passes and one, as in Megatron-LM's
    schedule."""
    assert words(one_forward_one_backward(3, 4, 8, 2)).startswith(
        "F0a F1a F2a F3a F0b B0b F1b B1b F2b B2b F3b B3b F4a B0a"
    )
    assert words(one_forward_one_backward(0, 4, 8, 2)).startswith(
        "F0a F1a F2a F3a F0b F1b F2b F3b F4a F5a F6a B0b F7a B1b"
    )


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("v", [1, 2, 3])
@pytest.mark.parametrize("rounds", [1, 2])
def test_each_pass_comes_once_and_backward_after_forward(p: int, v: int, rounds: int) -> None:
    for stage in range(p):
        order = one_forward_one_backward(stage, p, p * rounds, v)
        assert len(set(order)) == len(order) == 2 * p * rounds * v
        for one in order:
            if not one.forward:
                assert order.index(Pass(True, one.microbatch, one.chunk)) < order.index(one)
