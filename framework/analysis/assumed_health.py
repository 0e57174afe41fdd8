"""The health of a fabric under assumed scores and faults, without a lab and without measurement; scores are
read from a YAML file that counts from 0 or from 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

import numpy as np

from railweave.framework.errors import ExperimentError, FaultError, did_you_mean
from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.experiment.yaml_reader import read
from railweave.framework.health.loss import speed_at_loss
from railweave.framework.health.options import Aggregate
from railweave.framework.health.publishing import aggregate
from railweave.framework.model import Fabric, HealthSnapshot, NodeGroup
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.model.coordinates import Counting
from railweave.framework.model.health import rails_by_score

COUNT_FROM, LINKS = "count_from", "links"
COUNTED_FROM_0 = Counting()


@dataclass(frozen=True)
class AssumedScores:
    """The contents of the file. `nodes`: score by node id; `links`: score by link id; all others are
    healthy."""

    counting: Counting = COUNTED_FROM_0
    nodes: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[int, float] = field(default_factory=dict)


class FaultEffects:
    """What past faults leave of each link, (n_links,): `ceiling`, the largest score; `loss`, the part of
    packets that is lost; and `touched`, whether a fault named it or its other direction."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self.ceiling, self.touched = np.ones(fabric.n_links), np.zeros(fabric.n_links, bool)
        self._down, self._dead = np.zeros(fabric.n_links, bool), np.zeros(fabric.n_nodes, bool)
        self._arriving = {verb: np.ones(fabric.n_links) for verb in ("loss", "corrupt")}

    def add(self, fault: ResolvedFault) -> None:
        """Raises FaultError for a fault of a process: it changes no route."""
        if fault.process:
            raise FaultError(
                f"{fault.text!r}: {fault.verb} affects a process and changes no route. Leave it out."
            )
        links = fault.links
        cables = np.concatenate((links, links ^ 1))  # with the other direction of each
        self.touched[cables] = True
        match fault.verb:
            case "degrade":
                self.ceiling[links] = float(fault.options["to"])
            case "loss" | "corrupt" as verb if not fault.options.get("icrc"):
                self._arriving[verb][links] = 1 - float(fault.options["rate"])
            case "down" | "up":
                self._down[cables] = fault.verb == "down"
            case "restore" | "replace" | "reconnect":
                self.ceiling[links] = 1.0
                for arriving in self._arriving.values():
                    arriving[links] = 1.0
                self._down[cables] = False
            case "kill" | "start":
                self._dead[fault.node] = fault.verb == "kill"

    def links_down(self) -> Bool:
        """Those taken down, and those of switches that are killed."""
        return self._down | self._dead[self._fabric.link_src] | self._dead[self._fabric.link_dst]

    @property
    def loss(self) -> Float:
        return 1 - self._arriving["loss"] * self._arriving["corrupt"]


def assumed_health(
    fabric: Fabric,
    scores: AssumedScores | None = None,
    faults: Sequence[ResolvedFault] = (),
    how: Aggregate = "mean",
) -> HealthSnapshot:
    """The snapshot after all `faults`, in their order, on a fabric with these scores.

    A link has the score of its switch unless it has its own. `degrade` limits links to `to`, `loss` and
    `corrupt` leave the speed that the transport keeps (`health/loss.py`), `down` takes links down, `up` and
    `restore` undo, as do `replace` and `reconnect` once light passes, and `start` for a switch that is killed
    where there are no processes; other verbs change no score. A score of 0 is down. A switch with links that
    have their own score or a fault gets their aggregate (`how`), all others keep their score. The version is
    0 for a healthy fabric, else 1.

    Raises FaultError for faults of processes: they change no route.
    """
    scores = scores or AssumedScores()
    element = np.ones(fabric.n_nodes)
    element[list(scores.nodes)] = list(scores.nodes.values())
    in_switch = fabric.link_element >= 0
    switch_score = np.where(in_switch, element[fabric.link_element], 1.0)
    link_score = switch_score.copy()
    link_score[list(scores.links)] = list(scores.links.values())
    effects = FaultEffects(fabric)
    effects.touched[list(scores.links)] = True
    for fault in faults:
        effects.add(fault)
    down, loss = effects.links_down(), effects.loss
    link_score = np.where(down, 0.0, np.minimum(link_score, effects.ceiling) * speed_at_loss(loss))
    down |= link_score == 0
    changed_switches = np.unique(
        fabric.link_element[effects.touched & in_switch & (link_score != switch_score)]
    )
    element[changed_switches] = aggregate(fabric, link_score, how)[changed_switches]
    version = int((link_score < 1).any() or (element < 1).any())
    order, lost = rails_by_score(fabric, element), loss if loss.any() else np.empty(0)
    return HealthSnapshot(version, 0.0, link_score, element, down, order, loss=lost)


def read_scores(path: Path, fabric: Fabric) -> AssumedScores:
    """The scores in a file such as `domains: {1: 0.9, 2: 0.9}` and `rails: {1: 0.3}`; all others are 1.

    A section per kind of switch (domains, rails, spines) with scores by index, or as a list from 0 up;
    `links:` by name (`g0.0->r1`), which count from 0 as names always do. The file counts from 1 when its
    lowest index is 1; `count_from: 0` or `1` overrides that.

    Raises ExperimentError that lists every unknown key and every score outside 0..1, with their lines.
    """
    settings = read(path)
    sections = {f"{g.kind}s": g for g in fabric.groups[1:] if fabric.element_links(g.first).size}
    counting = _counting(settings, sections)
    nodes: dict[int, float] = {}
    links: dict[int, float] = {}
    for key, content in settings.value.items():
        if key == COUNT_FROM:
            continue
        if key not in (*sections, LINKS):
            settings.report(
                (key,),
                f"a {fabric.kind} fabric has no such scores; it has "
                f"{', '.join((*sections, LINKS, COUNT_FROM))}.{did_you_mean(key, (*sections, LINKS))}",
            )
            continue
        if not isinstance(content, dict | list) or (key == LINKS and isinstance(content, list)):
            settings.report((key,), f"holds scores by index, as in `{key}: {{0: 0.9}}` (got {content!r}).")
            continue
        rows = enumerate(content) if isinstance(content, list) else content.items()
        by = COUNTED_FROM_0 if isinstance(content, list) else counting
        for index, score in rows:
            try:
                if key == LINKS:
                    links[find_link(fabric, str(index))] = _score(score)
                else:
                    node = by.node(sections[key], str(index), f"{sections[key].kind} {index}")
                    nodes[node] = _score(score)
            except (ExperimentError, FaultError) as error:
                settings.report((key, index), str(error))
    settings.check()
    return AssumedScores(counting, nodes, links)


def _counting(settings: LayeredSettings, sections: Mapping[str, NodeGroup]) -> Counting:
    count_from = settings.value.get(COUNT_FROM)
    if count_from is not None:
        if isinstance(count_from, bool) or count_from not in (0, 1):
            settings.report((COUNT_FROM,), f"is 0 or 1 (got {count_from!r}).")
            return COUNTED_FROM_0
        return Counting(1 if count_from == 1 else 0)
    numbers: list[int] = []
    for key in sections:
        content = settings.value.get(key)
        if isinstance(content, list):
            numbers.append(0)
        elif isinstance(content, dict):
            parts = [part.strip() for index in content for part in str(index).split(",")]
            numbers += [int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 10]
    return Counting(1 if numbers and min(numbers) == 1 else 0)


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value) or not 0 <= value <= 1:
        raise ExperimentError(f"an h-score lies in 0..1: 1 is healthy, 0 is down (got {value!r}).")
    return float(value)
