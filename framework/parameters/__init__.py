"""Options that plugins declare and users set: units, defaults, limits, and clear refusals."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, get_args

from railweave.framework.errors import ExperimentError, PluginError, did_you_mean
from railweave.framework.parameters.units import (
    parse_bytes,
    parse_rate,
    parse_ratio,
    parse_time,
    rate,
    size,
    time,
)

Value = int | float | bool | str
Unit = Literal["count", "bytes", "rate", "time", "ratio", "factor", "bool", "text"]

TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
EXPECTS: Mapping[str, str] = {
    "count": "a whole number",
    "bytes": "a size such as 64K or 1M",
    "rate": "a rate such as 400Gb/s or 450GB/s",
    "time": "a time such as 25us or 1.5s",
    "ratio": "a share such as 0.2 or 20%",
    "factor": "a number",
    "bool": "true or false",
    "text": "a word",
}
"""What a user may write, by unit."""
_PARSERS: Mapping[str, Callable[[object], Value]] = {
    "count": lambda value: int(str(value)),
    "bytes": parse_bytes,
    "rate": parse_rate,
    "time": parse_time,
    "ratio": parse_ratio,
    "factor": lambda value: float(str(value)),
    "text": str,
}
_UNITS: Mapping[str, tuple[str, str, str]] = {"rate": ("Gb/s", "GB/s", "b/s"), "time": ("us", "ms", "s")}
"""How to write a number that has no unit, where it needs one."""
_BARE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One option of a plugin.

    Units: count (whole number), bytes (64K, 1M, 2G: binary, as nccl-tests), rate (400Gb/s in bits, 50GB/s in
    bytes; kept in bit/s), time (25us; kept in s), ratio (0..1 or 20%), factor (a plain number), bool, text.
    The default may be written as a user would; it is kept in base units. `word`: accepted besides, such as
    auto.

    Raises PluginError for a unit that does not exist and for a default that the parameter itself refuses.
    """

    name: str
    default: Value
    unit: Unit
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    word: str = ""

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise PluginError(
                f"parameter {self.name!r} has the unit {self.unit!r}; the units are: "
                f"{', '.join(get_args(Unit))}.{did_you_mean(self.unit, get_args(Unit))}"
            )
        if self.choices and self.default == "":  # nothing chosen yet
            return
        try:
            default = (
                float(self.default) if type(self.default) is int and self.unit in _UNITS else self.default
            )
            object.__setattr__(self, "default", self.parse(default))
        except ExperimentError as error:
            raise PluginError(f"the default of parameter {error}") from error

    @property
    def expects(self) -> str:
        """What a user may write, for messages and help."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        low = "" if self.minimum is None else f", {self.minimum:.10g} or more"
        high = "" if self.maximum is None else f", {self.maximum:.10g} or less"
        return EXPECTS[self.unit] + low + high + (f", or {self.word}" if self.word else "")

    def parse(self, value: object, *, written: bool = False) -> Value:
        """The value in base units (bytes, bit/s, s, 0..1).

        A rate or time needs its unit, 0 and what is called `seconds` aside. A float is one in base units, as
        plans keep and scripts compute them, unless it was `written` in a file.

        Raises ExperimentError naming the value, what is allowed and the parameter.
        """
        if self.word and value == self.word:
            return self.word
        named = self.name == "seconds"
        if self.unit in _UNITS and not named and (number := _bare(value, written=written)):
            first, second, third = (f"{number:g}{unit}" for unit in _UNITS[self.unit])
            raise ExperimentError(
                f"{self.name}: {value!r} has no unit. Write {first}, {second} or {third}, whichever is meant."
            )
        try:
            parsed = self._convert(value)
        except (ValueError, KeyError, OverflowError):
            raise ExperimentError(f"{self.name}: {value!r} is not {self.expects}.") from None
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            if self.minimum is not None and parsed < self.minimum:
                raise ExperimentError(f"{self.name}: {value!r} is too small; it takes {self.expects}.")
            if self.maximum is not None and parsed > self.maximum:
                raise ExperimentError(f"{self.name}: {value!r} is too large; it takes {self.expects}.")
        if self.choices and parsed not in self.choices:
            raise ExperimentError(
                f"{self.name}: {value!r} is not {self.expects}.{did_you_mean(value, self.choices)}"
            )
        return parsed

    def _convert(self, value: object) -> Value:
        if self.unit == "bool":
            return TRUTHS[str(value).lower()]
        if value is None or isinstance(value, bool | dict | list | tuple):
            raise ValueError(value)
        parsed = _PARSERS[self.unit](value)
        if isinstance(parsed, float) and not isfinite(parsed):
            raise ValueError(value)
        return parsed

    def written(self, value: Value) -> Value:
        """The value as a person would write it, if that reads back as the very same number; else the number
        in base units."""
        if isinstance(value, bool | str) or self.unit not in ("bytes", "rate", "time"):
            return value
        text = size(int(value)) if self.unit == "bytes" else {"rate": rate, "time": time}[self.unit](value)
        base = {"bytes": "", "rate": "b/s", "time": "s"}[self.unit]
        exact = f"{value!r}{base}" if base else value
        return text if self._convert(text) == value else exact


def _bare(value: object, *, written: bool) -> float:
    """The number that a person wrote without a unit; 0 where there is none."""
    if isinstance(value, str):
        return float(value) if _BARE.fullmatch(value.strip()) else 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return 0.0 if isinstance(value, float) and not written else float(value)


def resolve(
    owner: str, parameters: Sequence[Parameter], options: Mapping[str, object], *, written: bool = False
) -> dict[str, Value]:
    """Every parameter's value: the option's, else its default. Refuses names that `owner` does not declare.
    `written`: as `Parameter.parse` takes it."""
    declared = {p.name: p for p in parameters}
    for name in options:
        if name not in declared:
            raise ExperimentError(
                f"{owner} has no option {name!r}; it takes: {', '.join(declared) or 'none'}."
                f"{did_you_mean(name, declared)}"
            )
    return {
        p.name: p.parse(options[p.name], written=written) if p.name in options else p.default
        for p in parameters
    }
