"""An h-score decision in the words of `railweave explain`."""

from math import isinf

from railweave.framework.hookspecs import Explanation, Fact, NodeName
from railweave.framework.model import Fabric
from railweave.framework.routing.rails.choice import NO_BAR, rail_names
from railweave.plugins.hscore.decision import Decision


def explanation(fabric: Fabric, decision: Decision, name: NodeName) -> Explanation:
    """The decision as facts. `bar` is given next to `m` only where a margin makes them differ."""
    rail = rail_names(fabric, name)
    facts: dict[str, Fact] = {"kind": decision.kind}
    if decision.rail is not None:
        facts["remote_rail"] = rail(decision.rail)
    facts |= {"score": decision.score, "gamma_src": decision.gamma_src, "gamma_dst": decision.gamma_dst}
    facts["m"] = NO_BAR if isinf(decision.m) else decision.m
    if decision.bar != decision.m:
        facts["bar"] = decision.bar
    facts["routable_rails"] = [rail(r) for r in decision.routable]
    facts |= {f"score_{kind}": score for kind, score in decision.direct_scores}
    return Explanation(decision.why, facts)
