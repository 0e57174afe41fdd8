"""An item of a source: what the source prints, and how ours is computed."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from railweave.framework.papers.items.workbench import Workbench

Value = bool | int | float | str
Method = Literal["formula", "LP", "ILP", "Monte Carlo", "run"]
"""How `ours` comes about: by formulas and routes, a linear program, an integer program, drawn failures, or a
run on an engine."""
Bound = Literal["", ">", "<", ">=", "<="]
HOLDS = {
    ">": lambda ours, limit: ours > limit,
    "<": lambda ours, limit: ours < limit,
    ">=": lambda ours, limit: ours >= limit,
    "<=": lambda ours, limit: ours <= limit,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One number or word of an item. `source`: what the source prints, or its formula at the same inputs;
    None where it prints nothing. `bound`: the source says only that it is above or below `source`."""

    name: str
    source: Value | None
    ours: Value
    unit: str = ""
    bound: Bound = ""

    @property
    def difference(self) -> float | str | None:
        """Of numbers ours / source - 1, and ours - source where the source has 0; of words and bounds `none`
        or `differs`; None where the source prints nothing."""
        if self.source is None:
            return None
        if isinstance(self.source, bool | str) or isinstance(self.ours, bool | str):
            return "none" if self.source == self.ours else "differs"
        if self.bound:
            return "none" if HOLDS[self.bound](self.ours, self.source) else "differs"
        if not isfinite(self.ours):
            return "differs"
        return self.ours / self.source - 1 if self.source else float(self.ours)


@dataclass(frozen=True, slots=True)
class Claims:
    """What an item comes to with one set of inputs; `svg` the picture of the source's figure, "" without."""

    figures: tuple[Claim, ...]
    svg: str = ""

    @property
    def source(self) -> dict[str, Value | None]:
        return {figure.name: figure.source for figure in self.figures}

    @property
    def ours(self) -> dict[str, Value]:
        return {figure.name: figure.ours for figure in self.figures}


Compute = Callable[..., Claims]
"""Takes a Workbench, and inputs by name that all have defaults."""


@dataclass(frozen=True, slots=True)
class Item:
    """`place`: where in the source. `why`: why ours differs, or what is assumed where the source leaves a
    parameter open. `command`: the line that shows it; `{engine}` stands for the engine that computes runs.
    `compute` None where nothing computes it yet; `missing` says what is."""

    id: str
    title: str
    place: str
    method: Method = "formula"
    command: str = ""
    why: str = ""
    compute: Compute | None = None
    picture: bool = False
    missing: str = ""

    @property
    def inputs(self) -> Mapping[str, object]:
        """What `compute` can be given, with its default."""
        if self.compute is None:
            return {}
        parameters = [*inspect.signature(self.compute).parameters.values()][1:]
        return {parameter.name: parameter.default for parameter in parameters}

    @property
    def computed_by(self) -> str:
        """The function, as `module.function`; "" without one."""
        return "" if self.compute is None else f"{self.compute.__module__}.{self.compute.__name__}"

    def outcome(self, workbench: Workbench, **inputs: object) -> Claims:
        """Raises what the computation raises: MachineError where a solver is not installed."""
        assert self.compute is not None, f"{self.id} is not there yet"
        return self.compute(workbench, **inputs)


@dataclass(frozen=True, slots=True)
class Paper:
    """A source, by the word for it on the command line."""

    key: str
    title: str
    items: tuple[Item, ...]
