"""Values of a JSON document, checked as they are taken; errors name the place, as `gpus[0].ops[3]`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from railweave.framework.errors import ExperimentError


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An object of the document, and its place in it."""

    keys: Mapping[str, Any]
    where: str
    path: str

    def refuse(self, why: str) -> ExperimentError:
        return ExperimentError(f"{self.path}, {self.where}: {why}")

    def _value(self, key: str, kind: type, name: str) -> Any:
        if key not in self.keys:
            raise self.refuse(f"it lacks {key!r}. Write the plan with a current MSCCL++.")
        value = self.keys[key]
        if type(value) is not kind:
            raise self.refuse(f"{key} {value!r:.80} is not {name}.")
        return value

    def text(self, key: str) -> str:
        return str(self._value(key, str, "a text"))

    def truth(self, key: str) -> bool:
        return bool(self._value(key, bool, "true or false"))

    def whole(self, key: str, least: int, below: int | None = None, of_what: str = "") -> int:
        return self._checked(key, self._value(key, int, "a whole number"), least, below, of_what)

    def wholes(self, key: str, least: int, below: int | None = None, of_what: str = "") -> list[int]:
        values = self._value(key, list, "a list") if key in self.keys else []
        for value in values:
            if type(value) is not int:
                raise self.refuse(f"{value!r:.80} in {key} is not a whole number.")
        return [self._checked(key, value, least, below, of_what) for value in values]

    def _checked(self, key: str, value: int, least: int, below: int | None, of_what: str) -> int:
        if value < least:
            raise self.refuse(f"{key} {value} is below {least}.")
        if below is not None and value >= below:
            raise self.refuse(f"{key} {value} is not below {below}, the number of {of_what}.")
        return value

    def nodes(self, key: str, *, optional: bool = False) -> list[Self]:
        values = [] if optional and key not in self.keys else self._value(key, list, "a list")
        above = f"{self.where}." if self.where != "the plan" else ""
        at = f"{above}{key}"
        return [type(self)(self._object(v, key), f"{at}[{i}]", self.path) for i, v in enumerate(values)]

    def node(self, key: str) -> Self:
        return type(self)(self._value(key, dict, "an object"), f"{self.where}.{key}", self.path)

    def _object(self, value: object, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(f"{value!r:.80} in {key} is not an object.")
        return value
