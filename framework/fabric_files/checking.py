"""Settings held against a pydantic model: every error in its line, with what is allowed."""

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from railweave.framework.errors import did_you_mean
from railweave.framework.experiment.settings import FilePlace, Key, LayeredSettings

T = TypeVar("T")
MOST = 20
"""Errors of one object that are reported, the first."""


def validated(settings: LayeredSettings, model: TypeAdapter[T], hint: str = "") -> T:
    """The model of the settings. Raises ExperimentError listing what is wrong; `hint` ends the messages about
    keys and words that the model does not know."""
    settings.check()
    try:
        return model.validate_python(settings.value)
    except ValidationError as error:
        for wrong in error.errors(include_url=False)[:MOST]:
            key = _in_file(settings.value, wrong["loc"])
            message = wrong["msg"].removeprefix("Value error, ")
            match wrong["type"]:
                case "extra_forbidden":
                    message = f"there is no such key.{did_you_mean(key[-1], _names(model))}" + (
                        hint and f" {hint}"
                    )
                case "tuple_type" | "list_type":
                    message = f"expects a list (got {_short(wrong['input'])})."
                case "dict_type" | "mapping_type" | "model_type":
                    message = f"expects a mapping (got {_short(wrong['input'])})."
                case "string_type":
                    message = f"expects text; put it in quotes (got {_short(wrong['input'])})."
                case "missing":
                    message = "is missing. Give it."
                case "literal_error":
                    message = f"{message} (got {wrong['input']!r})." + (hint and f" {hint}")
                case "value_error":
                    pass
                case _:
                    message = f"{message[0].lower()}{message[1:]} (got {_short(wrong['input'])})."
            missing = len(key) == 1 and not settings.is_set(*key) and settings.marks
            settings.report(key, message, mark=FilePlace(1, 1) if missing else None)
        settings.check()
        raise


def _in_file(value: object, location: Key) -> Key:
    """The place of an error as far as the file itself has it: one value may stand for both directions."""
    for depth, part in enumerate(location):
        if isinstance(part, str):
            within = isinstance(value, dict)
        else:
            within = isinstance(value, list) and part < len(value)
        if not within:
            return location[:depth]
        value = value.get(part) if isinstance(value, dict) else value[part]  # type: ignore[index]
    return location


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _names(model: TypeAdapter[T]) -> list[str]:
    """Every name that any part of the model knows."""
    schema = model.json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return sorted({name for part in parts for name in part.get("properties", {})})
