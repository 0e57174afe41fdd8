"""An h-score decision in the words of `railweave explain`."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf

from railweave.framework.hookspecs import Explanation, Fact, NodeName
from railweave.framework.model import Fabric
from railweave.plugins.hscore.decision import Decision

NOT_ASKED = "none asked for"
"""What stands for m where no remote rail comes into question."""


def rail_names(fabric: Fabric, name: NodeName) -> Callable[[int], str]:
    """How the reader calls rail 0, 1, ..."""
    rails = fabric.group("rail")
    first = rails.first if rails else 0
    return lambda rail: name(first + rail)


def explanation(fabric: Fabric, decision: Decision, name: NodeName) -> Explanation:
    """The decision as facts. `bar` stands beside `m` only where a margin makes them differ."""
    rail = rail_names(fabric, name)
    facts: dict[str, Fact] = {"kind": decision.kind}
    if decision.rail is not None:
        facts["remote_rail"] = rail(decision.rail)
    facts |= {"score": decision.score, "gamma_src": decision.gamma_src, "gamma_dst": decision.gamma_dst}
    facts["m"] = NOT_ASKED if isinf(decision.m) else decision.m
    if decision.bar != decision.m:
        facts["bar"] = decision.bar
    facts["routable_rails"] = [rail(r) for r in decision.routable]
    facts |= {f"score_{kind}": score for kind, score in decision.direct_scores}
    return Explanation(decision.why, facts)
