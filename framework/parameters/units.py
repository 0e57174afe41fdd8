"""Numbers with their units, as people write them: text to base units (bytes, bit/s, s) and back."""

import re
from collections.abc import Mapping

BINARY = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10, "": 1}
RATES = {"Tb/s": 1e12, "Gb/s": 1e9, "Mb/s": 1e6, "kb/s": 1e3, "b/s": 1.0}
BYTE_RATES = {"B/s": 8.0, "kB/s": 8e3, "KB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9, "TB/s": 8e12}
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_NUMBER = r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([A-Za-z/]*)"
_RATES_IN_ANY_CASE = {unit.lower(): factor for unit, factor in RATES.items()}
_TIMES_READ = TIMES | {"min": 60.0, "h": 3600.0}


def parse_bytes(value: object) -> int:
    """Bytes of `64K`, `1M`, `2G` (binary, one letter, any case) or a plain number; ValueError otherwise."""
    if isinstance(value, int):
        return value
    if not (match := re.fullmatch(r"(-?\d+)\s*([KMGkmg]?)", str(value).strip())):
        raise ValueError(value)
    return int(match[1]) * BINARY[match[2].upper()]


def parse_rate(value: object) -> float:
    """bit/s of `400Gb/s` (bits), `450GB/s` (bytes), `10mbit` or a plain number; ValueError otherwise."""
    number, unit = _split(value)
    if unit in BYTE_RATES:
        return number * BYTE_RATES[unit]
    word = re.sub(r"bit$", "b/s", unit.lower())
    if unit.endswith("B/s") or (unit and word not in _RATES_IN_ANY_CASE):
        raise ValueError(value)
    return number * _RATES_IN_ANY_CASE[word or "b/s"]


def parse_time(value: object) -> float:
    """Seconds of `25us`, `1.5s`, `2min`, `1h` or a plain number of seconds; ValueError otherwise."""
    number, unit = _split(value)
    if (unit or "s") not in _TIMES_READ:
        raise ValueError(value)
    return number * _TIMES_READ[unit or "s"]


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
    if not (match := re.fullmatch(_NUMBER, str(value).strip())):
        raise ValueError(value)
    return float(match[1]), match[2]


def size(bytes_: int) -> str:
    """`1M`, `64K`, `1000`: binary letters where they are exact."""
    letter = next(letter for letter, unit in BINARY.items() if bytes_ % unit == 0) if bytes_ else ""
    return f"{bytes_ // BINARY[letter]}{letter}"


def rate(bps: float) -> str:
    """`400Gb/s`, `3.6Tb/s`: four digits, bits per second."""
    return _scaled(bps, RATES)


def time(seconds: float) -> str:
    """`25us`, `1.021s`: four digits."""
    return _scaled(seconds, TIMES)


def _scaled(value: float, units: Mapping[str, float]) -> str:
    """In the largest unit that the value reaches, or the smallest; zero in the largest."""
    fitting = (unit for unit, factor in units.items() if abs(value) >= factor * 0.9999 or not value)
    unit = next(fitting, [*units][-1])
    return f"{value / units[unit]:.4g}{unit}"
