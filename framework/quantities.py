"""Numbers with their units, as people write them: the way back from `parameters.parse_*`."""

from __future__ import annotations

from railweave.framework.parameters import Parameter, Value, parse_bytes, parse_rate, parse_time

_RATES = ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SIZES = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def size(bytes_: int) -> str:
    """`1M`, `64K`, `1000`: binary letters where they are exact."""
    for unit, letter in _SIZES:
        if bytes_ and bytes_ % unit == 0:
            return f"{bytes_ // unit}{letter}"
    return str(bytes_)


def rate(bps: float) -> str:
    """`400Gb/s`, `3.6Tb/s`: four digits, bits per second."""
    return _scaled(bps, _RATES)


def time(seconds: float) -> str:
    """`25us`, `1.021s`: four digits."""
    return _scaled(seconds, _TIMES)


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in units:
        if abs(value) >= factor * 0.9999:
            return f"{value / factor:.4g}{unit}"
    factor, unit = units[-1] if value else units[0]
    return f"{value / factor:.4g}{unit}"


def exact(parameter: Parameter, value: Value) -> Value:
    """The value as a person would write it, if that reads back as the very same number; else the number."""
    if isinstance(value, bool | str):
        return value
    match parameter.unit:
        case "bytes":
            text = size(int(value))
            return text if parse_bytes(text) == value else value
        case "rate":
            text = rate(float(value))
            return text if parse_rate(text) == value else value
        case "time":
            text = time(float(value))
            return text if parse_time(text) == value else value
        case _:
            return value
