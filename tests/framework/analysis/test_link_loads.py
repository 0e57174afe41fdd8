"""Patterns and matrix files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.analysis.link_loads import derangement, pattern
from railweave.framework.errors import ExperimentError
from tests.fakes.small_fabrics import rail_only

FABRIC = rail_only(2, 2)


@given(st.integers(2, 60), st.integers(0, 1000))
def test_a_permutation_leaves_nobody_alone(n: int, seed: int) -> None:
    drawn = derangement(n, seed)
    assert sorted(drawn.tolist()) == list(range(n))
    assert not (drawn == np.arange(n)).any()
    assert np.array_equal(drawn, derangement(n, seed))


def test_seeds_draw_different_ones() -> None:
    assert len({tuple(derangement(16, seed).tolist()) for seed in range(20)}) > 15


@pytest.mark.parametrize("form", ["csv", "npy"])
def test_a_matrix_without_its_diagonal(tmp_path: Path, form: str) -> None:
    matrix = np.zeros((4, 4))
    matrix[0, 0], matrix[0, 3], matrix[2, 1] = 7, 1e6, 5
    path = tmp_path / f"m.{form}"
    if form == "csv":
        np.savetxt(path, matrix, delimiter=",")
    else:
        np.save(path, matrix.astype(np.int64))
    found = pattern(str(path), FABRIC, 1)
    assert (found.unit, found.src.tolist(), found.dst.tolist(), found.amount.tolist()) == (
        "bytes",
        [0, 2],
        [3, 1],
        [1e6, 5],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,4\n", "2 x 2 numbers; this rail-only has 4 GPUs"),
        ("a,b\n", "cannot be read as a matrix"),
        ("", "cannot be read as a matrix|0 x 1|1 x 0"),
        ("\n".join(["0,0,0,0"] * 4), "no GPU sends anything"),
        ("\n".join(["0,0,0,-1"] * 4), "-1 bytes from g0.0 to g1.1 .row 1, column 4."),
        ("\n".join(["0,0,nan,1"] * 4), "nan bytes from g0.0 to g1.0"),
    ],
)
def test_what_is_no_demand_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=message):
        pattern(str(path), FABRIC, 1)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04zip", b"words"])
def test_npy_files_that_are_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.npy"
    path.write_bytes(content)
    with pytest.raises(ExperimentError, match="cannot be read as a matrix"):
        pattern(str(path), FABRIC, 1)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "m.npy"
    np.save(path, np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ExperimentError, match="cannot be read as a matrix"):
        pattern(str(path), FABRIC, 1)


def test_a_word_that_is_neither() -> None:
    with pytest.raises(ExperimentError, match=r"neither a pattern .* nor a file. Did you mean permutation"):
        pattern("permutatio", FABRIC, 1)
