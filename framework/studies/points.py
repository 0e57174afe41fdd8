"""A study: a base experiment, axes, and the points that they make, one at a time."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import product
from json.encoder import encode_basestring_ascii
from math import exp, log
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np

from railweave.framework.experiment.schema import DEFAULTS, KEYS, KINDS

KeyValues = Mapping[str, object]
"""What a point sets: keys of the experiment (`topology.domains`), parameters of plugins (`domains`) and words
of the texts of the base."""
_WORD = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_SECTIONS = (*KINDS, "health", "reports")
SIGNIFICANT = 6
"""Digits of a number that is drawn: what a table shows is what ran."""


class Value(NamedTuple):
    """A value of an axis: what it `sets`, and what tables show of it, which is the same unless it has a
    label."""

    shown: KeyValues
    sets: KeyValues


@dataclass(frozen=True, slots=True)
class Listed:
    """An axis that has each of `values` in turn; a value may set several keys at once."""

    values: tuple[Value, ...]

    @classmethod
    def of(cls, *values: KeyValues) -> Self:
        """Of values that are shown as what they set."""
        return cls(tuple(Value(value, value) for value in values))

    @property
    def names(self) -> set[str]:
        return {name for value in self.values for name in value.sets}

    def drawn(self, draw: np.random.Generator) -> Value:
        return self.values[int(draw.integers(len(self.values)))]


@dataclass(frozen=True, slots=True)
class Drawn:
    """An axis of numbers from `low` to `high`: evenly spread, evenly spread in their logarithm, or whole.
    `unit`: what stands behind each, such as %."""

    name: str
    low: float
    high: float
    spread: Literal["uniform", "log", "whole"] = "uniform"
    unit: str = ""

    @property
    def names(self) -> set[str]:
        return {self.name}

    def drawn(self, draw: np.random.Generator) -> Value:
        sets = {self.name: quantity(self._number(draw), self.unit)}
        return Value(sets, sets)

    def _number(self, draw: np.random.Generator) -> float:
        if self.spread == "whole":
            return int(draw.integers(int(self.low), int(self.high), endpoint=True))
        if self.spread == "log":
            return exp(float(draw.uniform(log(self.low), log(self.high))))
        return float(draw.uniform(self.low, self.high))


def quantity(number: float, unit: str) -> object:
    """A number, or with a unit a text, of SIGNIFICANT digits."""
    rounded = float(f"{number:.{SIGNIFICANT}g}")
    shown = int(rounded) if rounded.is_integer() else rounded
    return f"{shown}{unit}" if unit else shown


Axis = Listed | Drawn


@dataclass(frozen=True, slots=True)
class Point:
    """One experiment of a study. `id`: 32 hexadecimal digits that differ where anything that it is computed
    from does. `settings`: what distinguishes it from others, besides seed, `repeat` (from 0) and what was
    `drawn` for the seed; `sets`: what all that comes to."""

    id: str
    settings: KeyValues
    drawn: KeyValues
    sets: KeyValues
    seed: int
    repeat: int


@dataclass(frozen=True)
class Study:
    """A base experiment (keys as `rw.load` takes them) and axes. Its points are all combinations, in the
    order of the axes, or `sample` of them, drawn with `draw_seed`; each with `seeds` seeds from that of the
    base on, `repeats` times. For each seed every axis of `drawn` has one value, the same in all combinations.
    `written`: a person wrote the numbers, so that rates and times need units.

    The repeats and seeds change slowest, so that points that differ in settings run in turn.
    """

    name: str
    base: Mapping[str, object]
    axes: tuple[Axis, ...] = ()
    drawn: tuple[Axis, ...] = ()
    seeds: int = 1
    repeats: int = 1
    sample: int | None = None
    draw_seed: int = 1
    written: bool = False

    @property
    def combinations(self) -> int:
        """How many different settings there are."""
        if self.sample is not None:
            return self.sample
        count = 1
        for axis in self.axes:
            assert isinstance(axis, Listed)  # an axis of drawn numbers needs a sample
            count *= len(axis.values)
        return count

    @property
    def count(self) -> int:
        return self.combinations * self.seeds * self.repeats

    def points(self) -> Iterator[Point]:
        """Each when it is asked for; the first n of a sample are those of a larger one."""
        first = int(str(self.base.get("seed", DEFAULTS["seed"])))
        combined = [*self._combined()] if self.combinations <= _KEPT else None
        for repeat in range(self.repeats):
            for seed in range(first, first + self.seeds):
                drawn = self._drawn(seed)
                for value in self._combined() if combined is None else combined:
                    sets: KeyValues = {"seed": seed, **drawn.sets, **value.sets}
                    sets = _closed(sets) if self.words else sets
                    point_seed = int(str(sets["seed"]))
                    identity = self._identity.of(sets, point_seed, repeat)
                    yield Point(identity, value.shown, drawn.shown, sets, point_seed, repeat)

    def keys(self, point: Point) -> tuple[dict[str, object], dict[str, object]]:
        """The base with its words filled in, and the keys that the point lays over it."""
        base = {key: _filled(value, point.sets) for key, value in self.base.items()}
        sets = point.sets.items()
        return base, {name: value for name, value in sets if name not in self.words or name in KEYS}

    def _combined(self) -> Iterator[Value]:
        if self.sample is None:
            yield from map(
                _together, product(*(axis.values for axis in self.axes if isinstance(axis, Listed)))
            )
            return
        draw = np.random.default_rng(self.draw_seed)
        for _ in range(self.sample):
            yield _together([axis.drawn(draw) for axis in self.axes])

    def _drawn(self, seed: int) -> Value:
        if not self.drawn:
            return Value({}, {})
        draw = np.random.default_rng((self.draw_seed, seed))
        return _together([axis.drawn(draw) for axis in self.drawn])

    @cached_property
    def words(self) -> frozenset[str]:
        """The names in braces of all texts; one that is a key of the experiment sets that, too."""
        return frozenset(_words_in([self.base, *listed(self)]))

    @cached_property
    def _identity(self) -> "_Identity":
        return _Identity(self)


def _together(values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    shown = {name: value for part in values for name, value in part.shown.items()}
    return Value(shown, {name: value for part in values for name, value in part.sets.items()})


def _closed(sets: KeyValues) -> KeyValues:
    """With the words in the values of others filled in."""
    return {
        name: value
        if type(value) is int or (type(value) is str and "{" not in value)
        else _filled(value, sets)
        for name, value in sets.items()
    }


def listed(study: Study) -> list[KeyValues]:
    """What the listed values of all axes set."""
    axes = [axis for axis in (*study.axes, *study.drawn) if isinstance(axis, Listed)]
    return [value.sets for axis in axes for value in axis.values]


def _words_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _WORD.findall(value)
    elif isinstance(value, Mapping):
        yield from _words_in(list(value.values()))
    elif isinstance(value, Sequence):
        for part in value:
            yield from _words_in(part)


def _filled(value: object, words: KeyValues) -> object:
    """The value with the words of its texts in their places; names in braces that are none stay."""
    if isinstance(value, str):
        return _WORD.sub(lambda match: str(words.get(match[1], match[0])), value) if "{" in value else value
    if isinstance(value, Mapping):
        return {key: _filled(part, words) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [_filled(part, words) for part in value]
    return value


# -- what a point is known by --------------------------------------------------------------------------------
_MODULUS = 1 << 128
_KEPT = 1 << 14
"""Digests that are kept: axes have few values, and points many."""


class _Identity:
    """Numbers of resolved points: the sum of a digest of each key with its value, so that it does not matter
    which of them the base has and which an axis (a multiset hash by addition: Clarke et al., ASIACRYPT 2003).
    What is the same in all points is added once. Digests are kept for this study alone: files may change
    before the next."""

    def __init__(self, study: Study) -> None:
        self._kept_digest = lru_cache(_KEPT, typed=True)(_new_digest)
        self._words = study.words
        fixed = {key: value for key, value in _flat(study.base).items() if key != "seed"}
        varied = {name for axis in (*study.axes, *study.drawn) for name in axis.names}
        self._changing = {
            key: value for key, value in fixed.items() if key in varied or {*_words_in(value)} & self._words
        }
        self._same = sum(
            self._digest(key, value) for key, value in fixed.items() if key not in self._changing
        )
        self._texts = {
            key: text for key, value in self._changing.items() if (text := _plain_text(key, value))
        }
        self._left_out = {"seed", *(self._words - KEYS.keys())}

    def of(self, settings: KeyValues, seed: int, repeat: int) -> str:
        number = self._same + self._digest("seed", seed)
        number += self._digest("repeat", repeat) if repeat else 0
        for name, value in settings.items():
            if name not in self._left_out:
                number += self._digest(name, value)
        for key, value in self._changing.items():
            if key in settings:
                continue
            if text := self._texts.get(key):
                number += _number_of(_filled_json(text, settings))
            else:
                number += self._digest(key, _filled(value, settings))
        return f"{number % _MODULUS:032x}"

    def _digest(self, key: str, value: object) -> int:
        if type(value) is int:  # a seed: there are many
            return _number_of(f'["{key}", {value}, ""]')
        try:
            return self._kept_digest(key, value)
        except TypeError:  # a list, which nothing can be kept by
            return _new_digest(key, value)


def _flat(base: Mapping[str, object]) -> dict[str, object]:
    """The keys of a base with the options of plugins and of health as `kind.option`."""
    flat: dict[str, object] = {}
    for key, value in base.items():
        if isinstance(value, Mapping) and key in _SECTIONS:
            flat |= {key if option == "name" else f"{key}.{option}": v for option, v in value.items()}
        else:
            flat[key] = value
    return flat


def _new_digest(key: str, value: object) -> int:
    content = sha256(Path(name).read_bytes()).hexdigest() if (name := file_of(key, value)) else ""
    return _number_of(_encode([key, value, content]))


def _plain_text(key: str, value: object) -> str:
    """What the digest of a text or a list of texts that names no file is made of, with its words in braces
    yet; "" for any other value."""
    texts = value if isinstance(value, list) else [value]
    plain = key not in KINDS and key.rpartition(".")[2] != "file" and all(isinstance(t, str) for t in texts)
    return _encode([key, value, ""]) if plain else ""


def _filled_json(text: str, words: KeyValues) -> str:
    """As `_filled`, of a text that JSON encoded: so are the words."""
    return _WORD.sub(
        lambda match: encode_basestring_ascii(str(words[match[1]]))[1:-1] if match[1] in words else match[0],
        text,
    )


def _number_of(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:16])


_encode = json.JSONEncoder(sort_keys=True, default=str).encode


def file_of(key: str, value: object) -> str:
    """The file that a plugin is to read: `NAME:FILE`, or an option `file`; "" where there is none."""
    return name if (name := _file_named(key, value)) and Path(name).is_file() else ""


def _file_named(key: str, value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value.partition(":")[2] if key in KINDS else value if key.rpartition(".")[2] == "file" else ""


def files_of(*keys: Mapping[str, object]) -> set[str]:
    """The files that an experiment needs, by its keys."""
    return {name for some in keys for key, value in _flat(some).items() if (name := file_of(key, value))}


def with_files(keys: Mapping[str, object], places: Mapping[str, str]) -> dict[str, object]:
    """The keys with files in the places where they are now."""

    def moved(key: str, value: object) -> object:
        if isinstance(value, Mapping):
            return {option: moved(f"{key}.{option}", part) for option, part in value.items()}
        name = _file_named(key, value)
        return str(value).removesuffix(name) + places[name] if name in places else value

    return {key: moved(key, value) for key, value in keys.items()}
