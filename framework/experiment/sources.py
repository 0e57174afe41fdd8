"""Where the keys of an experiment come from: a file, the options of a command, the keywords of a script."""

from collections.abc import Mapping
from pathlib import Path

from railweave.framework.errors import did_you_mean
from railweave.framework.experiment.schema import KEYS, KINDS
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.experiment.yaml_reader import read
from railweave.framework.hookspecs import Configurable
from railweave.framework.registry import Registers

SPELLINGS = {"fault": "faults", "job": "jobs"}
"""What the options of keys that hold several are called."""


def from_file(
    path: Path | None, overrides: Mapping[str, object] | None = None, labels: Mapping[str, str] | None = None
) -> LayeredSettings:
    """The file's mapping, or an empty one, with `overrides` (dotted keys) laid over it; see `lay_over`.

    Raises ExperimentError when the file cannot be read at all.
    """
    settings = read(path) if path else LayeredSettings("the options", {})
    _one_spelling(settings)
    lay_over(settings, overrides or {}, labels or {})
    return settings


def lay_over(settings: LayeredSettings, overrides: Mapping[str, object], labels: Mapping[str, str]) -> None:
    """Set dotted keys, sections before what is in them; `labels` names the options they came by,
    for messages."""
    for key in sorted(overrides, key=lambda k: k.count(".")):
        path = (SPELLINGS[key],) if key in SPELLINGS else tuple(key.split("."))
        _override(settings, path, overrides[key], labels.get(key, f"--set {key}"))


def lay_over_keys(
    settings: LayeredSettings, keys: Mapping[str, object], registers: Registers
) -> dict[str, object]:
    """Set the keys of a script; messages call each as it was written. Returns what stands for a plugin and is
    no name: objects such as a Fabric.

    `keys`: those of the experiment file, nested or dotted, and parameters of plugins by their own names; None
    stands for a key that is not there. A parameter belongs to the chosen plugin that declares it (topology
    first), else to the kind of plugin that has one which declares it; a key of that name goes first. A name
    that nothing declares, and a key that is set twice, are reported.
    """
    objects = {kind: keys[kind] for kind in KINDS if not isinstance(keys.get(kind), str | Mapping | None)}
    overrides: dict[str, object] = {}
    labels: dict[str, str] = {}
    wrong: list[tuple[str, str]] = []
    for name, value in keys.items():
        if value is None or name in objects:
            continue
        plain = SPELLINGS.get(name, name)
        if isinstance(value, Mapping) and (plain in KINDS or plain in ("health", "reports")):
            parts = {plain if k == "name" else f"{plain}.{k}": v for k, v in value.items()}
        elif plain in KEYS or "." in name:
            parts = {plain: value}
        elif kind := _kind_of(name, {**settings.value, **keys}, registers):
            parts = {f"{kind}.{name}": value}
        else:
            names = [*KEYS, *(n for kind in KINDS for p in registers[kind].values() for n in _parameters(p))]
            wrong.append((name, f"there is no such key or parameter.{did_you_mean(name, names)}"))
            continue
        for key, part in parts.items():
            if key in overrides:
                wrong.append((key, f"is set twice, by {labels[key]} and {name}. Keep one of them."))
            overrides[key], labels[key] = part, key if isinstance(value, Mapping) else name
    lay_over(settings, overrides, labels)
    for name, message in wrong:  # what is laid over a key forgets its errors
        settings.labels[(name,)] = name
        settings.report((name,), message)
    return objects


def _kind_of(name: str, keys: Mapping[str, object], registers: Registers) -> str:
    """The kind of plugin whose parameter `name` is; empty where there is none."""
    for kind, default in KINDS.items():
        choice = keys.get(kind) or default
        plugin = choice.get("name", default) if isinstance(choice, Mapping) else choice
        plugin = str(plugin).partition(":")[0]
        if plugin in registers[kind] and name in _parameters(registers[kind][plugin]):
            return kind
    offering = (k for k in KINDS if any(name in _parameters(p) for p in registers[k].values()))
    return next(offering, "")


def _parameters(plugin: Configurable) -> list[str]:
    return [parameter.name for parameter in plugin.parameters]


def _one_spelling(settings: LayeredSettings) -> None:
    """`fault:` and `job:` (as the options are called) are `faults:` and `jobs:`, and a bare plugin name is a
    mapping."""
    for option, name in SPELLINGS.items():
        if option in settings.value and name not in settings.value:
            settings.value[name] = settings.value.pop(option)
            moved = {(name, *k[1:]): mark for k, mark in settings.marks.items() if k[0] == option}
            settings.marks.update(moved)
    for kind in KINDS:
        if isinstance(settings.value.get(kind), str):
            settings.value[kind] = {"name": settings.value[kind]}


def _override(settings: LayeredSettings, key: Key, value: object, label: str) -> None:
    """Set one key; another plugin drops the options that the file has for the one it replaces."""
    kind = str(key[0])
    if key == (kind,) and kind in KINDS:
        section = settings.value.get(kind)
        before = section.get("name", KINDS[kind]) if isinstance(section, dict) else None
        if isinstance(section, dict) and section.keys() - {"name"} and before != value:
            settings.notes.append(
                f"{label} {value}: options of {kind} {before} in {settings.source} are ignored."
            )
            section = None
        if not isinstance(section, dict):
            settings.drop(kind)
        key = (kind, "name")
    settings.override(key, value, label)
