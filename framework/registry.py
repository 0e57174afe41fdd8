"""One register per kind of plugin, filled through pluggy from the entry-point group `railweave`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import pluggy

from railweave.framework.errors import PluginError
from railweave.framework.hookspecs import Hooks

KINDS = (
    "topology", "router", "collective", "workload", "estimator", "controller", "transport", "engine", "report",
)  # fmt: skip
PLURALS = {kind: kind + "s" for kind in KINDS} | {"topology": "topologies"}


@dataclass(frozen=True, slots=True)
class Offer:
    """One registered object and the plugin that holds its name."""

    name: str
    thing: Any
    holder: str


class Register(Mapping[str, Any]):
    """Objects of one kind by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._offers: dict[str, Offer] = {}

    def add(self, holder: str) -> Callable[[str, Any], None]:
        def register(name: str, thing: Any) -> None:
            if name in self._offers:
                raise PluginError(
                    f"{self.kind} {name!r} is offered by {self._offers[name].holder} and by {holder}. "
                    "Uninstall one of them or rename its entry."
                )
            self._offers[name] = Offer(name, thing, holder)

        return register

    def holder(self, name: str) -> str:
        """The plugin that holds a name."""
        return self._offers[name].holder

    def offers(self) -> list[Offer]:
        return [self._offers[name] for name in sorted(self._offers)]

    def __getitem__(self, name: str) -> Any:
        if name not in self._offers:
            near = get_close_matches(name, self._offers, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            known = ", ".join(sorted(self._offers)) or "none"
            raise PluginError(f"there is no {self.kind} {name!r}; known are: {known}.{hint}")
        return self._offers[name].thing

    def __contains__(self, name: object) -> bool:
        return name in self._offers

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._offers))

    def __len__(self) -> int:
        return len(self._offers)


class Registers:
    """All registers, and the plugin manager whose observers a run calls."""

    def __init__(self, plugins: Iterable[tuple[str, ModuleType | object]]) -> None:
        self.manager = pluggy.PluginManager("railweave")
        self.manager.add_hookspecs(Hooks)
        self._kinds = {kind: Register(kind) for kind in KINDS}
        for name, plugin in plugins:
            try:
                self.manager.register(plugin, name)
                self._fill(name, plugin)
            except PluginError:
                raise
            except Exception as error:
                raise PluginError(
                    f"plugin {name} fails while it registers: {type(error).__name__}: {error}. "
                    "Repair or uninstall it."
                ) from error

        self._refuse_shared_names()

    def _refuse_shared_names(self) -> None:
        """A workload is used where a collective is, by its name alone."""
        for name in set(self["workload"]) & set(self["collective"]):
            one, other = (self[kind].holder(name) for kind in ("workload", "collective"))
            raise PluginError(
                f"{name!r} is a workload of {one} and a collective of {other}. Rename one of them."
            )

    def _fill(self, holder: str, plugin: object) -> None:
        for kind, register in self._kinds.items():
            hook = getattr(plugin, f"register_{PLURALS[kind]}", None)
            if hook is not None:
                hook(register=register.add(holder))

    def __getitem__(self, kind: str) -> Register:
        return self._kinds[kind]

    def __iter__(self) -> Iterator[Register]:
        return iter(self._kinds.values())


def load() -> Registers:
    """The registers of everything installed. Imports every plugin module; nothing loads at our own import.

    Raises PluginError naming the entry point whose module cannot be imported.
    """
    found: list[tuple[str, ModuleType | object]] = []
    for entry in sorted(
        entry_points(group="railweave"), key=lambda e: (e.dist.name if e.dist else "", e.name)
    ):
        holder = f"{entry.name} ({entry.dist.name if entry.dist else entry.value})"
        try:
            found.append((holder, entry.load()))
        except Exception as error:
            raise PluginError(
                f"plugin {holder} cannot be loaded from {entry.value}: {type(error).__name__}: {error}. "
                "Repair or uninstall it."
            ) from error
    return Registers(found)
