"""Which elements and links a page shows, and their figures over the whole run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64
from railweave.framework.model.names import element_name
from railweave.framework.page.data.page_data import DETAILED_GPUS, ITEMS, WORST, Items
from railweave.framework.results.result import RunResult

T = TypeVar("T")
V = TypeVar("V")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Shown:
    """The nodes and links that are items, in this order; `all_links` if none is left out."""

    nodes: Int64
    links: Int64
    all_links: bool


def shown(fabric: Fabric, samples: Arrays | None) -> Shown:
    """All elements and links; of a large fabric the links that scored worst, then waited longest."""
    nodes = np.unique(fabric.link_element[fabric.link_element >= 0])[:ITEMS].astype(np.int64)
    room = ITEMS - len(nodes)
    if fabric.n_gpus <= DETAILED_GPUS and fabric.n_links <= room:
        return Shown(nodes, np.arange(fabric.n_links), True)
    if samples is None or not len(samples["t_s"]):
        return Shown(nodes, np.arange(min(WORST, room, fabric.n_links)), False)
    worst, queue = samples["link_score"].min(axis=0), samples["queue_bytes"].max(axis=0)
    return Shown(nodes, np.sort(np.lexsort((-queue, worst))[: min(WORST, room)]), False)


def items(fabric: Fabric, chosen: Shown, result: RunResult | None) -> Items:
    """Columns of page_data.Items; `fabric` has emulated rates."""
    index = {int(node): i for i, node in enumerate(chosen.nodes)}
    nodes, links = chosen.nodes.tolist(), chosen.links.tolist()
    element_names = [element_name(fabric, node) for node in nodes]
    names = [fabric.link_name(link) for link in links]
    of_links = {} if result is None else {link.name: link for link in result.links}
    of_elements = {} if result is None else {element.name: element for element in result.elements}
    elements, figures = [of_elements.get(n) for n in element_names], [of_links.get(n) for n in names]
    none = (None,) * len(nodes)
    rates = [float(fabric.capacity_bps[fabric.link_element == node].sum()) for node in nodes]
    return Items(
        name=(*element_names, *names),
        kind=(*map(fabric.node_kind, nodes), *(fabric.kinds[fabric.link_kind[link]] for link in links)),
        shape=(*(f"node{n}" for n in nodes), *(f"link{link & ~1}" for link in links)),
        element=(*(-1 for _ in nodes), *(index.get(int(fabric.link_element[link]), -1) for link in links)),
        rate_bps=(*rates, *fabric.capacity_bps[chosen.links].tolist()),
        bytes=column(elements, lambda e: e.bytes) + column(figures, lambda f: f.bytes),
        utilisation=column(elements, lambda e: round(e.utilisation, 4))
        + column(figures, lambda f: round(f.utilisation, 4)),
        loss=none + column(figures, lambda f: round(f.loss, 6)),
        drops=none + column(figures, lambda f: f.drops),
        h_score=column(elements, lambda e: round(e.h_score, 4))
        + column(figures, lambda f: round(f.h_score, 4)),
        age_s=none + column(figures, lambda f: None if f.age_s is None else round(f.age_s, 3)),
        paused=none + column(figures, lambda f: None if f.paused is None else round(f.paused, 4)),
    )


def column(values: Sequence[T | None], figure: Callable[[T], V | None]) -> tuple[V | None, ...]:
    """A figure of each; None where there is nothing known."""
    return tuple(None if value is None else figure(value) for value in values)
