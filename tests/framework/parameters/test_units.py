from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.parameters import Parameter, units


def test_people_s_units() -> None:
    assert units.size(1 << 20) == "1M"
    assert units.size(65536) == "64K"
    assert units.size(1000) == "1000"
    assert units.size(0) == "0"
    assert units.rate(400e9) == "400Gb/s"
    assert units.rate(3.6e12) == "3.6Tb/s"
    assert units.time(25e-6) == "25us"
    assert units.time(1.02149) == "1.021s"
    assert units.time(0) == "0s"
    assert units.time(0.9999999) == "1s"


@given(st.floats(0, 1e15) | st.integers(0, 1 << 50).map(float))
def test_what_is_written_reads_back_as_the_same_number(value: float) -> None:
    for unit in ("rate", "time"):
        parameter = Parameter("x", 0.0, unit, "")  # type: ignore[arg-type]
        assert parameter.parse(parameter.written(value)) == value
    size = Parameter("x", 0, "bytes", "")
    assert size.parse(size.written(int(value))) == int(value)
