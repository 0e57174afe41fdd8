"""Options that plugins declare and users set: units, defaults, limits, and clear refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isnan
from typing import Literal

from railweave.framework.errors import ExperimentError

Value = int | float | bool | str
Unit = Literal["count", "bytes", "rate", "time", "ratio", "factor", "bool", "text"]

BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
RATES = {
    "b/s": 1.0, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9, "tb/s": 1e12,
    "bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12,
}  # fmt: skip
BYTE_RATES = {"B/s": 8.0, "kB/s": 8e3, "KB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9, "TB/s": 8e12}
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One option of a plugin.

    Units: count (whole number), bytes (64K, 1M, 2G: binary, as nccl-tests), rate (400Gb/s in bits, 50GB/s in
    bytes; kept in bit/s), time (25us; kept in s), ratio (0..1 or 20%), factor (a plain number), bool, text.
    """

    name: str
    default: Value
    unit: Unit
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        """What a user may write, for messages and help."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        kind = {
            "count": "a whole number",
            "bytes": "a size such as 64K or 1M",
            "rate": "a rate such as 400Gb/s or 450GB/s",
            "time": "a time such as 25us or 1.5s",
            "ratio": "a share such as 0.2 or 20%",
            "factor": "a number",
            "bool": "true or false",
            "text": "a word",
        }[self.unit]
        low = "" if self.minimum is None else f", {self.minimum:g} or more"
        high = "" if self.maximum is None else f", {self.maximum:g} or less"
        return kind + low + high

    def parse(self, given: object) -> Value:
        """The value in base units (bytes, bit/s, s, 0..1).

        Raises ExperimentError naming the value, what is allowed and the parameter.
        """
        try:
            value = self._convert(given)
        except (ValueError, TypeError, OverflowError):
            raise ExperimentError(f"{self.name}: {given!r} is not {self.expects}.") from None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not abs(float(value)) < float("inf"):
            raise ExperimentError(f"{self.name}: {given!r} is not {self.expects}.")
        if number and self.minimum is not None and float(value) < self.minimum:
            raise ExperimentError(f"{self.name}: {given!r} is too small; it takes {self.expects}.")
        if number and self.maximum is not None and float(value) > self.maximum:
            raise ExperimentError(f"{self.name}: {given!r} is too large; it takes {self.expects}.")
        if self.choices and value not in self.choices:
            near = get_close_matches(str(given), self.choices, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ExperimentError(f"{self.name}: {given!r} is not {self.expects}.{hint}")
        return value

    def _convert(self, given: object) -> Value:
        if self.unit == "bool":
            if isinstance(given, bool):
                return given
            if str(given).lower() not in TRUTHS:
                raise ValueError
            return TRUTHS[str(given).lower()]
        if isinstance(given, bool) or given is None:
            raise ValueError
        match self.unit:
            case "count":
                return given if isinstance(given, int) else int(str(given))
            case "bytes":
                return parse_bytes(given)
            case "rate":
                return parse_rate(given)
            case "time":
                return parse_time(given)
            case "ratio":
                text = str(given).strip()
                value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
                if not 0 <= value <= 1:
                    raise ValueError
                return value
            case "factor":
                value = float(str(given))
                if isnan(value):
                    raise ValueError
                return value
            case _:
                return str(given)


def parse_bytes(given: object) -> int:
    """Bytes of `64K`, `1M`, `2G` (binary, one letter, any case) or a plain number; ValueError otherwise."""
    if isinstance(given, int):
        return given
    found = re.fullmatch(r"(-?\d+)\s*([KMGkmg]?)", str(given).strip())
    if not found:
        raise ValueError(given)
    return int(found[1]) * BINARY[found[2].upper()]


def parse_rate(given: object) -> float:
    """bit/s of `400Gb/s` (bits), `450GB/s` (bytes), `10mbit` or a plain number; ValueError otherwise."""
    if isinstance(given, int | float):
        return float(given)
    found = re.fullmatch(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([A-Za-z/]*)", str(given).strip())
    if not found:
        raise ValueError(given)
    number, unit = float(found[1]), found[2]
    if unit == "":
        return number
    if unit in BYTE_RATES:
        return number * BYTE_RATES[unit]
    if unit.endswith("B/s") or unit.lower() not in RATES:
        raise ValueError(given)
    return number * RATES[unit.lower()]


def parse_time(given: object) -> float:
    """Seconds of `25us`, `1.5s`, `2min` or a plain number of seconds; ValueError otherwise."""
    if isinstance(given, int | float):
        return float(given)
    found = re.fullmatch(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([a-z]*)", str(given).strip())
    if not found or (found[2] or "s") not in TIMES:
        raise ValueError(given)
    return float(found[1]) * TIMES[found[2] or "s"]


def resolve(owner: str, parameters: Sequence[Parameter], given: Mapping[str, object]) -> dict[str, Value]:
    """Every parameter's value: what is given, else its default. Refuses names that `owner` does not declare."""
    known = {p.name: p for p in parameters}
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            allowed = ", ".join(known) or "none"
            raise ExperimentError(f"{owner} has no option {name!r}; it takes: {allowed}.{hint}")
    return {p.name: p.parse(given[p.name]) if p.name in given else p.default for p in parameters}
