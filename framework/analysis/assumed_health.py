"""The health of a fabric under assumed scores and faults, without a lab and without measurement."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.analysis.scores_file import AssumedScores
from railweave.framework.errors import FaultError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.health.options import Aggregate
from railweave.framework.health.publishing import aggregate
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.health import rails_by_score


def assumed_health(
    fabric: Fabric,
    scores: AssumedScores | None = None,
    faults: Sequence[ResolvedFault] = (),
    how: Aggregate = "mean",
) -> HealthSnapshot:
    """The snapshot after all `faults`, in their order, on a fabric with these scores.

    A link has the score of its switch unless it has its own. `degrade` limits links to `to`, `loss` subtracts
    its share, `down` takes links down, `up` and `restore` undo, other verbs change no score; a score of 0 is
    down. A switch with links that have their own score or a fault gets their aggregate (`how`), all others
    keep their score. The version is 0 for a healthy fabric, else 1.

    Raises FaultError for faults of processes: they change no route.
    """
    scores = scores or AssumedScores()
    element = np.ones(fabric.n_nodes)
    element[list(scores.nodes)] = list(scores.nodes.values())
    own_score = np.ones(fabric.n_links)
    has = fabric.link_element >= 0
    own_score[has] = element[fabric.link_element[has]]
    own_score[list(scores.links)] = list(scores.links.values())
    ceiling, kept, down = np.ones(fabric.n_links), np.ones(fabric.n_links), np.zeros(fabric.n_links, bool)
    touched = np.zeros(fabric.n_links, bool)
    touched[list(scores.links)] = True
    for fault in faults:
        links = fault.links
        if fault.process:
            raise FaultError(
                f"{fault.text!r}: {fault.verb} affects a process and changes no route. Leave it out."
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
    link_score = np.where(down, 0.0, np.minimum(own_score, ceiling) * kept)
    down |= link_score == 0
    of_switch = element[fabric.link_element]  # unused where a link belongs to no switch
    changed_switches = np.unique(fabric.link_element[touched & has & (link_score != of_switch)])
    element[changed_switches] = aggregate(fabric, link_score, how)[changed_switches]
    version = int((link_score < 1).any() or (element < 1).any())
    return HealthSnapshot(version, 0.0, link_score, element, down, rails_by_score(fabric, element))
