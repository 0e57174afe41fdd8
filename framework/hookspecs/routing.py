"""Fabrics, and the routers that choose paths in them."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.parameters import Value


class Topology(Configurable, Protocol):
    """Builds fabrics.

    `examples`: options of fabrics to try plugins on, from small to large: those of up to 256 GPUs for every
    check, the first of up to 16 for real runs, larger ones for time and memory. `axis_names`: what the
    coordinates of a GPU are called. `lossless`: whether its links wait instead of dropping, so that routes
    can deadlock. `notes`: what a user should know of the fabric that `build` made, a sentence each. `router`:
    the name of the one that suits its fabrics, for runs that name none; "": the first default that serves.
    """

    examples: tuple[Mapping[str, object], ...] = ({},)
    axis_names: tuple[str, ...] = ()
    lossless: bool = False
    notes: tuple[str, ...] = ()
    router: str = ""

    @abstractmethod
    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric. Pure; `params` are parsed and complete. Raises FabricError for what cannot exist."""

    def larger(self, params: Mapping[str, Value], factor: int) -> Mapping[str, object] | None:
        """Options of a fabric with about `factor` times the GPUs of the one of `params`, as an operator would
        extend it (`railweave what-if`); None where its kind has one size."""
        return None


class Router(Configurable, Protocol):
    """Decides paths. It serves the fabrics whose kind is in `serves` (all kinds if that is empty) and whose
    `Fabric.capabilities` include everything in `requires`, such as ("rails", "lattice"); the words and their
    meanings are `railweave.framework.model.capabilities.MEANINGS`.

    `damped`: whether its choices follow scores. Measured scores are noisy, so a pair then leaves its path
    only for one better by a margin and after a dwell time. False for a router that only looks at what is
    down: its tables are taken whole, as its proofs (deadlock, restoration) want them, and so are those of one
    that promises `deadlock-free`. Either is also asked with slow links down; that answer is taken where the
    demand then ends sooner.

    `wants_demand`: `routes` is given a third argument, the Demand of an iteration, or None where it is not
    known (programs, `railweave explain`); it is asked again when what is sent changes, never for a phase.

    `chooser`: the name of the one that its paths are made for, taken where the experiment names none.
    """

    serves: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    damped: bool = False
    wants_demand: bool = False
    chooser: str = ""

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """What `railweave plugin check` holds it to on a fabric it serves: `reroutes`, `equal-split`,
        `deadlock-free` (docs/plugins.md)."""
        return ("reroutes", "deadlock-free") if "lossless" in fabric.capabilities else ("reroutes",)

    @abstractmethod
    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """Choose paths: a table that answers for any pairs of GPUs; the pairs in use are requested in blocks.

        Called once the fabric is up, then on every published health change, off the packet path. Pure: equal
        arguments give equal tables. The table's version is `health.version`.

        Raises:
            UnsupportedFabricError: not a kind of fabric this router serves; says which are.
        An unreachable pair gets no path (an empty range); the caller reports it.
        """


Fact = int | float | str | Sequence[str]


@dataclass(frozen=True)
class Explanation:
    """Why a pair takes the paths it takes.

    `why`: the rule that decided, in a line. `facts`: what the decision rests on, by name, in the order to
    show; numbers, words, or lists of words. The paths themselves are in the table.
    """

    why: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


NodeName = Callable[[int], str]
"""A node as the reader calls it: `rail 5`, or `rail 4` when counting from 0."""


@runtime_checkable
class ExplainingRouter(Protocol):
    """What a router has besides `routes` if it can give reasons (`railweave explain`). Optional: the paths of
    other routers are shown without a reason."""

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The reason behind the answer of `routes` for one pair. Pure. Nodes are called `name(node)`.

        Raises as `routes` does, and RouteError for a GPU that does not exist.
        """
