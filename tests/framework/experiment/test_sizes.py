"""One size or a sweep, as nccl-tests' -b, -e, -f and -i have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.sizes import MOST, canonical, parse_sizes, spoken


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1M", (1 << 20,)),
        (0, (0,)),
        ("64K:512K:x2", (65536, 131072, 262144, 524288)),
        ("8:1000:x10", (8, 80, 800)),
        ("1K:4K:+1K", (1024, 2048, 3072, 4096)),
        ("0:10:+4", (0, 4, 8)),
        ("4K:4K:x2", (4096,)),
    ],
)
def test_sizes_step_as_in_nccl_tests(text: object, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("4M:64K:x2", "ends before it"),
        ("64K:4M", "FROM:TO:xFACTOR"),
        ("64K:4M:x1", "from 2 on"),
        ("0:4M:x2", "above 0"),
        ("64K:4M:*2", "xFACTOR or"),
        ("64K:4M:+0", "xFACTOR or"),
        ("1:100000:+1", f"more than {MOST}"),
        ("64Q:4M:x2", "'64Q' is not a size"),
        ("-1", "too small; it takes a size"),
    ],
)
def test_what_is_no_sweep_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        parse_sizes(text)


@given(st.integers(1, 1 << 30), st.integers(0, 40), st.integers(2, 9))
def test_what_is_spoken_reads_back(low: int, more: int, factor: int) -> None:
    text = f"{low}:{low * factor**more}:x{factor}"
    assert spoken(canonical(text)) == spoken(canonical(spoken(canonical(text))))
    assert parse_sizes(text) == parse_sizes(spoken(canonical(text)))
    assert parse_sizes(canonical(text)) == parse_sizes(text)
