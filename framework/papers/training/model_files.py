"""Language models of a user's own, from a YAML file."""

from dataclasses import MISSING, fields
from pathlib import Path

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.experiment import yaml_reader
from railweave.framework.papers.training.models import LanguageModel, model_named

IN_A_FILE = "file:"
"""What the name of a model in a file begins with, as that of a fabric does."""
FIELDS = tuple(field.name for field in fields(LanguageModel))
NEEDED = tuple(field.name for field in fields(LanguageModel) if field.default is MISSING)
EXAMPLE = "name: mine, heads: 64, hidden: 8192, layers: 80, and if they differ vocabulary and sequence"


def chosen_model(name: str) -> LanguageModel:
    """The model of a name, or of the file that `file:PATH` means. Raises ExperimentError as `model_named` and
    `read_model` do."""
    if name.startswith(IN_A_FILE):
        return read_model(Path(name.removeprefix(IN_A_FILE)))
    return model_named(name)


def read_model(path: Path) -> LanguageModel:
    """The model in a file such as `name: mine`, `heads: 64`, `hidden: 8192`, `layers: 80`, a line each;
    `vocabulary` and `sequence` have the defaults of LanguageModel.

    Raises ExperimentError that lists every field that is missing, unknown or no whole number, with its line.
    """
    settings = yaml_reader.read(path)
    for key, value in settings.value.items():
        if key not in FIELDS:
            settings.report((key,), f"is no field of a model.{did_you_mean(key, FIELDS)} Write {EXAMPLE}.")
        elif key != "name" and (isinstance(value, bool) or not isinstance(value, int)):
            settings.report((key,), f"is a whole number (got {value!r}).")
    settings.check()
    if missing := [name for name in NEEDED if name not in settings.value]:
        raise ExperimentError(f"{path}: the model lacks {', '.join(missing)}. Write {EXAMPLE}.")
    values = dict(settings.value)
    return LanguageModel(str(values.pop("name")), **{key: int(str(value)) for key, value in values.items()})
