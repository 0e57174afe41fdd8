"""The experiment of merged settings: each key read by its declaration, each error reported in its place."""

from collections.abc import Callable, Mapping

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.experiment.jobs import jobs_of
from railweave.framework.experiment.rank_programs import words_of
from railweave.framework.experiment.ranks import selectors_of
from railweave.framework.experiment.schema import KEYS, KINDS, PARAMETERS, Choice, Experiment, canonical
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.health.options import PARAMETERS as HEALTH_PARAMETERS
from railweave.framework.health.options import HealthOptions
from railweave.framework.parameters import Parameter, Value, resolve

GONE = {"name": "nothing reads it any more. Remove the line."}
"""Keys of earlier versions, and what to do about them."""
OF_THE_COMMAND = ("out", "json", "quiet", "verbose")


def experiment(settings: LayeredSettings) -> tuple[Experiment, frozenset[str]]:
    """The experiment of these settings, and the keys that are wrong: reported, and at their defaults."""
    values: dict[str, object] = {}
    before = len(settings.problems)
    for name, value in settings.value.items():
        try:
            values[name] = _value(settings, name, value)
        except ExperimentError as error:
            settings.report((name,), str(error).removeprefix(f"{name}: "))
    broken = {str(problem.key[0]) for problem in settings.problems[before:]}
    return Experiment.model_validate({k: v for k, v in values.items() if k not in broken}), frozenset(broken)


def _value(settings: LayeredSettings, name: str, value: object) -> object:
    """What the model is to hold for a key. Raises ExperimentError for what is wrong with all of it."""
    if name in OF_THE_COMMAND:
        raise ExperimentError(f"belongs to the command, not to the experiment. Give it as --{name}.")
    if name not in KEYS:
        raise ExperimentError(
            GONE.get(name) or f"there is no such key.{did_you_mean(name, KEYS)} Keys are: {', '.join(KEYS)}."
        )
    match KEYS[name].shape:
        case "value":
            return PARAMETERS[name].parse(value, written=settings.written)
        case "size":
            return canonical(value)
        case "plugin":
            return _choice(settings, name, value)
        case "command":
            return words_of(value)
        case "texts":
            return _texts(settings, name, value)
        case "ranks":
            return selectors_of(value)
        case "jobs":
            return jobs_of(settings, value)
        case "reports":
            if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
                raise ExperimentError(f"expects a mapping of reports and their options (got {value!r}).")
            return value
    if not isinstance(value, Mapping):
        raise ExperimentError(
            f"expects a mapping of {', '.join(p.name for p in HEALTH_PARAMETERS)} (got {value!r})."
        )
    return HealthOptions.of(options_of(settings, (name,), name, value, HEALTH_PARAMETERS) or {})


def _texts(settings: LayeredSettings, name: str, value: object) -> tuple[str, ...]:
    """One text, or a list of texts; the key's word stands for an empty list."""
    texts, nothing = [value] if isinstance(value, str) else value, KEYS[name].word
    if not isinstance(texts, list | tuple):
        raise ExperimentError(f"expects a text or a list of texts (got {value!r}).")
    if nothing and nothing in texts and len(texts) > 1:
        raise ExperimentError(f"holds {nothing} next to others. Keep one or the other.")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            settings.report((name, i), f"expects a word (got {text!r}).")
    return tuple(str(text) for text in texts if text != nothing)


def _choice(settings: LayeredSettings, kind: str, value: object) -> Choice | None:
    """A plugin by name, or by a mapping of its options with or without the name; `NAME:FILE` is the plugin
    NAME with its option `file`."""
    default = KINDS[kind]
    if isinstance(value, Choice) or (value is None and not default):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise ExperimentError(
            f"expects a name such as {default or 'ptdp'}, or a mapping of name and options (got {value!r})."
        )
    options = {k: v for k, v in value.items() if k != "name"}
    name = value.get("name", default)
    if name == "":
        raise ExperimentError("has options but no name, such as ptdp.")
    if not isinstance(name, str):
        settings.report((kind, "name"), f"expects a word (got {name!r}).")
    name, colon, file = str(name).partition(":")
    if colon and options.get("file", file) != file:
        raise ExperimentError(
            f"names the file {file!r} after the colon and {options['file']!r} as an option. Give one."
        )
    return Choice(name=name, options={**options, "file": file} if colon else options)


def options_of(
    settings: LayeredSettings,
    key: Key,
    owner: str,
    options: Mapping[str, object],
    parameters: tuple[Parameter, ...],
    elsewhere: Callable[[str], str] = lambda name: "",
) -> dict[str, Value] | None:
    """The complete, parsed options of the section `key`; None when some are wrong, each of them reported,
    with what `elsewhere` says of one that `owner` does not have."""
    before, has = len(settings.problems), {parameter.name for parameter in parameters}
    for name, value in options.items():
        try:
            resolve(owner, parameters, {name: value}, written=settings.written)
        except ExperimentError as error:
            other = "" if name in has else elsewhere(name)
            settings.report((*key, name), str(error).removeprefix(f"{name}: ") + other)
    if len(settings.problems) > before:
        return None
    return resolve(owner, parameters, options, written=settings.written)
