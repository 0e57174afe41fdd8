"""The health that a person supposes: scores given, then faults that have struck. No lab, no measurement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import FaultError
from railweave.framework.faults import VERBS, ResolvedFault
from railweave.framework.health.options import Aggregate
from railweave.framework.health.publishing import aggregate
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.scores_file import SupposedScores


def supposed(
    fabric: Fabric,
    scores: SupposedScores | None = None,
    faults: Sequence[ResolvedFault] = (),
    how: Aggregate = "mean",
) -> HealthSnapshot:
    """The snapshot once all `faults` have struck, in the order given, on a fabric of these scores.

    A link has the score of its switch unless it is given itself. `degrade` lowers links to `to`, `loss` takes its
    share off, `down` takes them out, `up` and `restore` undo, other verbs change no score; a score of 0 is down. A
    switch some of whose links were given or struck has their aggregate, all others keep the score they were given. The version is 0 for a healthy fabric, else 1.

    Raises FaultError for faults done to processes: they change no route.
    """
    scores = scores or SupposedScores()
    element = np.ones(fabric.n_nodes)
    for node, score in scores.nodes.items():
        element[node] = score
    given = np.ones(fabric.n_links)
    has = fabric.link_element >= 0
    given[has] = element[fabric.link_element[has]]
    for link, score in scores.links.items():
        given[link] = score
    ceiling, kept, down = np.ones(fabric.n_links), np.ones(fabric.n_links), np.zeros(fabric.n_links, bool)
    touched = np.zeros(fabric.n_links, bool)
    touched[list(scores.links)] = True
    for fault in faults:
        links = fault.links
        if VERBS[fault.verb].processes:
            raise FaultError(
                f"{fault.text!r}: {fault.verb} is done to a process and changes no route. Leave it out."
            )
        touched[links] = touched[links ^ 1] = True
        match fault.verb:
            case "degrade":
                ceiling[links] = float(fault.options["to"])
            case "loss":
                kept[links] = 1 - float(fault.options["rate"])
            case "down":
                down[links] = down[links ^ 1] = True  # the other direction of the cable
            case "up":
                down[links] = down[links ^ 1] = False
            case "restore":
                ceiling[links], kept[links] = 1.0, 1.0
                down[links] = down[links ^ 1] = False
    link_score = np.where(down, 0.0, np.minimum(given, ceiling) * kept)
    down |= link_score == 0
    own = element[fabric.link_element]  # of links that belong to no switch this is not looked at
    struck = np.unique(fabric.link_element[touched & has & (link_score != own)])
    element[struck] = aggregate(fabric, link_score, how)[struck]
    rails = fabric.group("rail")
    rail_score = element[rails.first : rails.first + rails.size] if rails else np.empty(0)
    changed = bool((link_score < 1).any() or (element < 1).any())
    return HealthSnapshot(
        int(changed), 0.0, link_score, element, down,
        np.lexsort((np.arange(len(rail_score)), rail_score)),
    )  # fmt: skip
