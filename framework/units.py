"""Numbers with their units, as people write them: text to base units (bytes, bit/s, s) and back."""

import re

BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
RATES = {"b/s": 1.0, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9, "tb/s": 1e12}
BYTE_RATES = {"B/s": 8.0, "kB/s": 8e3, "KB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9, "TB/s": 8e12}
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}

_NUMBER = r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([A-Za-z/]*)"
_RATES = ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SIZES = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def parse_bytes(value: object) -> int:
    """Bytes of `64K`, `1M`, `2G` (binary, one letter, any case) or a plain number; ValueError otherwise."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(-?\d+)\s*([KMGkmg]?)", str(value).strip())
    if not match:
        raise ValueError(value)
    return int(match[1]) * BINARY[match[2].upper()]


def parse_rate(value: object) -> float:
    """bit/s of `400Gb/s` (bits), `450GB/s` (bytes), `10mbit` or a plain number; ValueError otherwise."""
    number, unit = _split(value)
    if unit in BYTE_RATES:
        return number * BYTE_RATES[unit]
    word = re.sub(r"bit$", "b/s", unit.lower())
    if unit.endswith("B/s") or (unit and word not in RATES):
        raise ValueError(value)
    return number * RATES[word or "b/s"]


def parse_time(value: object) -> float:
    """Seconds of `25us`, `1.5s`, `2min` or a plain number of seconds; ValueError otherwise."""
    number, unit = _split(value)
    if (unit or "s") not in TIMES:
        raise ValueError(value)
    return number * TIMES[unit or "s"]


def parse_ratio(value: object) -> float:
    """0..1 of `0.2` or `20%`; ValueError otherwise."""
    text = str(value).strip()
    ratio = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= ratio <= 1:
        raise ValueError(value)
    return ratio


def _split(value: object) -> tuple[float, str]:
    if isinstance(value, int | float):
        return float(value), ""
    match = re.fullmatch(_NUMBER, str(value).strip())
    if not match:
        raise ValueError(value)
    return float(match[1]), match[2]


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
