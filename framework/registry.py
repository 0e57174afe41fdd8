"""One register per kind of plugin, filled through pluggy from the entry-point group `railweave`."""

import inspect
import os
import re
import sys
import time
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from railweave.framework import hookspecs
from railweave.framework.errors import (
    PLUGIN_FAILURES,
    PluginError,
    blaming,
    defined_at,
    describe,
    did_you_mean,
)
from railweave.framework.hookspecs import Hooks
from railweave.framework.parameters import Parameter

PROTOCOLS: Mapping[str, type] = {
    "topology": hookspecs.Topology,
    "router": hookspecs.Router,
    "collective": hookspecs.Collective,
    "workload": hookspecs.Workload,
    "estimator": hookspecs.Estimator,
    "controller": hookspecs.Controller,
    "transport": hookspecs.Transport,
    "chooser": hookspecs.PathChooser,
    "congestion-control": hookspecs.CongestionControl,
    "engine": hookspecs.Engine,
    "report": hookspecs.Report,
    "benchmark": hookspecs.Benchmark,
}
"""Every kind of plugin, and the shape of what is registered."""
FILES = "RAILWEAVE_PLUGINS"
"""Of the environment: plugins of one file, separated as in PATH. Labs and workers inherit it."""
TRACE = "RAILWEAVE_TRACE"
"""Of the environment: where it is not empty, standard error says which hooks run, and how long."""
OPTIONAL: Mapping[str, object] = {
    "wants_demand": False,
    "wants_health": False,
    "wants_paths": False,
    "chooser": "",
    "each": "packet",
    "keeps_shares": False,
    "follows_links": False,
}
"""Members that came later, and what holds of a plugin that is without."""
PLURALS = {kind: f"{kind.replace('-', '_')}s" for kind in PROTOCOLS} | {"topology": "topologies"}
KEYS: Mapping[str, str] = {"control": "congestion-control"}
"""Kinds by the key that an experiment has for them, where that is another word."""


class Register(UserDict[str, Any]):
    """Objects of one kind by name, in the order of the names. `holders`: the plugin that holds each name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.holders: dict[str, str] = {}

    def add(self, holder: str, name: str, registered: Any) -> None:
        if name in self:
            raise PluginError(
                f"{self.kind} {name!r} is offered by {self.holders[name]} and by {holder}. "
                "Uninstall one of them or rename its entry."
            )
        if why := _unfit(self.kind, name, registered):
            raise PluginError(
                f"plugin {holder}: {self.kind} {name!r} ({defined_at(registered)}) {why}. "
                "The contract is docs/plugins.md."
            )
        self[name], self.holders[name] = registered, holder

    def __missing__(self, name: str) -> Any:
        raise PluginError(
            f"there is no {self.kind} {name!r}; known are: {', '.join(self) or 'none'}."
            f"{did_you_mean(name, self)}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.data))


def _unfit(kind: str, name: str, registered: Any) -> str:
    """Why an object cannot be registered, as words; empty if it can."""
    if not (isinstance(name, str) and re.fullmatch(r"[^\s:,=]+", name)):
        return "has no name that options can carry: it takes letters, digits and hyphens"
    if isinstance(registered, type):
        return f"is a class; register an instance, {registered.__name__}()"
    shape = PROTOCOLS[kind]
    members = dict.fromkeys(
        member
        for part in shape.__mro__
        if part.__module__.startswith(hookspecs.__name__)
        for member in (*vars(part), *vars(part).get("__annotations__", {}))
        if not member.startswith("_")
    )
    if missing := [m for m in members if m not in OPTIONAL and not hasattr(registered, m)]:
        return f"lacks {', '.join(missing)}. Write them, or inherit {hookspecs.__name__}.{shape.__name__}"
    if not isinstance(registered.summary, str) or len(registered.summary.splitlines()) != 1:
        return f"has the summary {registered.summary!r}: it takes one line of text"
    if not isinstance(registered.parameters, tuple) or not all(
        isinstance(p, Parameter) for p in registered.parameters
    ):
        return f"has the parameters {registered.parameters!r}: it takes a tuple of Parameter"
    for member in ("serves", "requires"):
        words = getattr(registered, member, ())
        if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
            return f'has {member} = {words!r}: it takes a tuple such as ("ring",), or () for all'
    for member in ("damped", "lossless", "same_result_everywhere", *OPTIONAL):
        usual = OPTIONAL.get(member, False)
        value = getattr(registered, member, None)
        fits = type(value) is type(usual) or (value is None and member in OPTIONAL)
        if member in members and not fits:
            return f"has {member} = {value!r}: it takes {'True or False' if usual is False else 'a text'}"
    return ""


class Registers:
    """All registers, and the plugin manager whose observers a run calls.

    `plugins`: (name, module or object), the name as messages give it.
    """

    def __init__(self, plugins: Iterable[tuple[str, ModuleType | object]]) -> None:
        self.manager = pluggy.PluginManager("railweave")
        self.manager.add_hookspecs(Hooks)
        if os.environ.get(TRACE):
            _trace(self.manager)
        self._plugins = tuple(plugins)
        for name, plugin in self._plugins:
            self._admit(name, plugin)
        self._kinds = {kind: Register(kind) for kind in PROTOCOLS}
        for kind, register in self._kinds.items():
            for holder, call in self.callers(f"register_{PLURALS[kind]}"):
                with blaming(f"plugin {holder}: register_{PLURALS[kind]}"):
                    call(register=partial(register.add, holder))
        for name in set(self["workload"]) & set(self["collective"]):  # either is used by its name alone
            first, second = (self[kind].holders[name] for kind in ("workload", "collective"))
            raise PluginError(
                f"{name!r} is a workload of {first} and a collective of {second}. Rename one of them."
            )

    def callers(self, hook: str) -> list[tuple[str, pluggy.HookCaller]]:
        """Every plugin that implements `hook`, in pluggy's order of calling, with a caller of its
        implementation alone; the wrappers of all plugins surround each."""
        implementations = getattr(self.manager.hook, hook).get_hookimpls()
        plain = [i for i in implementations if not (i.wrapper or i.hookwrapper)]
        names = dict.fromkeys(i.plugin_name for i in reversed(plain))
        return [
            (name, self.manager.subset_hook_caller(hook, [i.plugin for i in plain if i.plugin_name != name]))
            for name in names
        ]

    def offering(self, kind: str, name: str, plugin: object) -> "Registers":
        """These registers, and this plugin in them."""
        holder = f"object {len(self._plugins)}, a {type(plugin).__name__}"
        return Registers([*self._plugins, (holder, _offer(self[kind].kind, name, plugin))])

    def _admit(self, name: str, plugin: ModuleType | object) -> None:
        """Hand a plugin to pluggy. Raises PluginError for a hook that would never be called, or not as
        written."""
        specs = [hook for hook in vars(Hooks) if not hook.startswith("_")]
        for hook in specs:
            function = inspect.getattr_static(plugin, hook, None)
            if callable(function) and self.manager.parse_hookimpl_opts(plugin, hook) is None:
                raise PluginError(
                    f"plugin {name}: {hook} at {defined_at(function)} is not marked as a hook. Put @hookimpl "
                    "(from railweave.framework.hookspecs) above it, or give it another name."
                )
        try:
            self.manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            hook = next((hook for hook in specs if f"hook {hook!r}" in str(error)), "")
            place, spec = defined_at(getattr(plugin, hook, plugin)), getattr(self.manager.hook, hook).spec
            raise PluginError(
                f"plugin {name}: {hook} at {place}: {str(error).splitlines()[-1]}. "
                f"It may take: {', '.join(getattr(spec, 'argnames', ()))}."
            ) from error
        for caller in self.manager.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if not (caller.has_spec() or implementation.optionalhook):
                    raise PluginError(
                        f"plugin {name}: there is no hook {caller.name}, at "
                        f"{defined_at(implementation.function)}.{did_you_mean(caller.name, specs)}"
                    )

    def __getitem__(self, kind: str) -> Register:
        """That of a kind, or of an experiment's key for it."""
        return self._kinds[KEYS.get(kind, kind)]

    def __iter__(self) -> Iterator[Register]:
        return iter(self._kinds.values())


def _trace(manager: pluggy.PluginManager) -> None:
    """Say on standard error what every call of a hook takes, calls within it included."""
    began_s: list[float] = []

    def before(hook: str, implementations: Sequence[pluggy.HookImpl], arguments: Mapping[str, Any]) -> None:
        began_s.append(time.perf_counter())

    def after(
        outcome: pluggy.Result[Any],
        hook: str,
        implementations: Sequence[pluggy.HookImpl],
        arguments: Mapping[str, Any],
    ) -> None:
        took_s = time.perf_counter() - began_s.pop()
        names = ", ".join(implementation.plugin_name for implementation in reversed(implementations))
        failed = f", fails: {describe(outcome.exception)}" if outcome.exception else ""
        sys.stderr.write(f"{TRACE}: {hook}: {names or 'nobody'}: {took_s * 1e3:.3f} ms{failed}\n")

    manager.add_hookcall_monitoring(before, after)


def object_name(owner: type) -> str:
    """The name of what is registered as an object of a class: my-router for MyRouter."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", owner.__name__).lower().strip("_")


def _offer(kind: str, name: str, plugin: object) -> ModuleType:
    """A plugin whose only hook registers this object."""

    @hookspecs.hookimpl
    def offer(register: Callable[[str, object], None]) -> None:
        register(name, plugin)

    module = ModuleType(name)
    setattr(module, f"register_{PLURALS[kind]}", offer)
    return module


def load_plugins() -> Registers:
    """The registers of everything installed, and of plugin files. Imports every plugin module; importing this
    module loads nothing.

    Raises PluginError naming the entry point or file whose module cannot be imported, with file and line.
    """
    plugins: list[tuple[str, ModuleType | object]] = []
    for entry in sorted(
        entry_points(group="railweave"), key=lambda e: (e.dist.name if e.dist else "", e.name)
    ):
        holder = f"{entry.name} ({entry.dist.name if entry.dist else entry.value})"
        try:
            plugins.append((holder, entry.load()))
        except PLUGIN_FAILURES as error:
            raise PluginError(
                f"plugin {holder} cannot be loaded from {entry.value}: {describe(error)}. "
                "Repair or uninstall it."
            ) from error
    return Registers([*plugins, *_from_files()])


def plugin_file(entry: str) -> tuple[Path, str]:
    """The file of an entry of FILES, and the KIND=CLASS behind a # that is no part of its name."""
    if "#" not in entry or Path(entry).is_file():
        return Path(entry), ""
    place, _, offered = entry.rpartition("#")
    return Path(place), offered


def _from_files() -> Iterator[tuple[str, ModuleType]]:
    """The file and the module of each; of `FILE#KIND=CLASS`, one object of the class alone. Raises
    PluginError, naming file and line, for one that is not there, cannot be imported, prints or exits
    meanwhile, or is made for a newer railweave."""
    for name in dict.fromkeys(filter(None, os.environ.get(FILES, "").split(os.pathsep))):
        path, offered = plugin_file(name)
        if not path.is_file():
            raise PluginError(f"plugin file {name}: there is no such file. Check --plugin and {FILES}.")
        module = _imported(path.absolute())
        if not offered:
            yield name, module
            continue
        kind, _, owner = offered.partition("=")
        if kind not in PROTOCOLS or not inspect.isclass(made := getattr(module, owner, None)):
            raise PluginError(f"plugin file {name}: after # there is no KIND=CLASS of this file.")
        with blaming(f"plugin file {name}: {owner}()"):
            yield name, _offer(kind, object_name(made), made())


_under_way: set[str] = set()
"""Modules of plugin files that are being imported."""


def _imported(path: Path) -> ModuleType:
    named = f"railweave_plugin_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if (imported := sys.modules.get(named)) is not None:
        if named in _under_way:
            raise PluginError(
                f"plugin file {path} uses railweave while it is imported. Put that under "
                "`if __name__ == '__main__':`."
            )
        return imported
    spec = spec_from_file_location(named, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"plugin file {path}: it is no Python file. Its name ends in .py.")
    module = sys.modules[named] = module_from_spec(spec)
    _under_way.add(named)
    try:
        with redirect_stdout(_NoOutput()):
            spec.loader.exec_module(module)
    except PLUGIN_FAILURES as error:
        del sys.modules[named]
        raise PluginError(f"plugin file {path} cannot be loaded: {describe(error)}. Repair it.") from error
    finally:
        _under_way.discard(named)
    if why := _why_not_served(path, getattr(module, "API", hookspecs.API)):
        del sys.modules[named]
        raise PluginError(f"plugin file {why}")
    return module


def _why_not_served(path: Path, wants: object) -> str:
    """Why a file of this API is refused, with its line; empty if it is not."""
    lines = enumerate(path.read_text().splitlines(), start=1)
    at = next((f"{path}:{number}" for number, line in lines if line.startswith("API")), str(path))
    if not isinstance(wants, int):
        return f"{at}: API = {wants!r} is no version. Write API = {hookspecs.API}."
    if wants > hookspecs.API:
        have = f"this railweave has {hookspecs.API}. Install a newer railweave."
        return f"{at} is made for plugin API {wants}, and {have}"
    return ""


class _NoOutput(StringIO):
    """Standard output belongs to the command: its tables and JSON are read by programs."""

    def write(self, text: str) -> int:
        raise RuntimeError(f"it prints {text[:40]!r} while it is imported")
