"""A health snapshot in the terms of the h-score rules."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from railweave.framework.errors import HealthError
from railweave.framework.health.publishing import aggregate
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.model.names import weak_links
from railweave.framework.model.node_group import NodeGroup
from railweave.framework.routing.rails.links import RailLinks


@dataclass(frozen=True)
class Scores:
    """h-scores of a rail-only fabric.

    `domain` (D,), `rail` (K,) by id; `order` (K,) rail ids by (score, id), `ordered` their scores; `gamma` (D
    K,) the h-ratio H(g)/H(d) of every place, +inf where H(d) = 0; `dead` (n_links + 1,) links that cannot be
    used: down, one-way, of score 0, or of a switch of score 0; the last is that of places without a GPU
    (`RailLinks`), dead where there are such places. `weak` (n_links + 1,) links that score below their switch
    by more than the margin, as a slow NIC or cable does. They do not count for `domain` and `rail`, which are
    what other GPUs get of the switch. `interface` (2, D K): the d- and r-interface of every place, the lower
    of its switch and its own two links, dead ones aside.
    """

    domain: Float
    rail: Float
    order: Int64
    ordered: Float
    gamma: Float
    margin: float
    dead: Bool
    weak: Bool
    interface: Float

    @classmethod
    def of(cls, fabric: Fabric, health: HealthSnapshot, links: RailLinks) -> Self:
        """Raises HealthError if the snapshot is of another fabric or its rails are not in order."""
        domains, rails = fabric.group("domain"), fabric.group("rail")
        if domains is None or rails is None:
            raise HealthError(f"{fabric.kind} has no domains or no rails to read the scores of.")
        health.check_fits(fabric)
        domain = health.element_score[domains.first : domains.first + domains.size]
        rail = health.element_score[rails.first : rails.first + rails.size]
        order = health.rail_order
        if not np.array_equal(order, np.lexsort((np.arange(rails.size), rail))):
            raise HealthError(
                f"rail order {order.tolist()} of health version {health.version} is not by (score, id) of "
                f"{rail.tolist()}. A snapshot carries the order of its own scores."
            )
        dead = health.down | (health.link_score == 0) | ~fabric.usable
        counted = np.flatnonzero(fabric.link_element >= 0)
        dead[counted] |= health.element_score[fabric.link_element[counted]] == 0
        weak = weak_links(fabric, health.link_score, health.element_score, health.margin)
        weak = np.append(weak & ~dead, False)
        if weak.any():
            shared = np.where(weak[:-1], 1.0, health.link_score)
            others = aggregate(fabric, shared, "mean", ~weak[:-1])
            domain, rail = (
                _without(weak, fabric, group, others, scores)
                for group, scores in ((domains, domain), (rails, rail))
            )
            order = np.argsort(rail, kind="stable")
        dead = np.append(dead, not is_full(fabric))
        interface = np.empty((2, domains.size * rails.size))
        by_domain, by_rail = interface.reshape(2, domains.size, rails.size)
        by_domain[:], by_rail[:] = domain[:, None], rail
        if weak.any():
            link_score = np.append(np.where(weak[:-1] & ~dead[:-1], health.link_score, 1.0), 1.0)
            for row, ends in enumerate(((links.d_up, links.d_down), (links.r_up, links.r_down))):
                interface[row] = np.minimum(
                    interface[row], np.minimum(link_score[ends[0]], link_score[ends[1]])
                )
        gamma = ratio(rail[None, :], domain[:, None]).ravel()
        return cls(domain, rail, order, rail[order], gamma, health.margin, dead, weak, interface)

    @cached_property
    def avoided(self) -> Bool:
        """(n_links + 1,): links for which a path by rule is looked at again."""
        return self.dead | self.weak

    @cached_property
    def domain_of(self) -> Int64:
        """(D K,): the domain of every place."""
        return np.repeat(np.arange(len(self.domain)), len(self.rail))

    @cached_property
    def rail_of(self) -> Int64:
        """(D K,): the rail of every place."""
        return np.tile(np.arange(len(self.rail)), len(self.domain))

    @cached_property
    def level(self) -> Int64:
        """(D K,): how many rails are not above the bar that a place's own gamma sets.

        The bar grows with m and m is the greater gamma, so the greater level of two places is that of their
        pair.
        """
        return self.at_or_below(self.gamma)

    def at_or_below(self, m: Float) -> Int64:
        """(P,): how many rails are not above the bar that m sets; the next one in `order` is the best fit."""
        return np.searchsorted(self.ordered, self.bars(m), side="right")

    def thresholds(self, src: Int64, dst: Int64, detour: bool) -> Float:
        """(P,): m, above which a remote rail beats the pair's direct paths; +inf where none is considered.

        Different rails and domains: max of the two gammas (Remote Rail Theorem). Same rail, with `detour`:
        H(g) / (H(d1) H(d2)), this project's extension.
        """
        d1, g1 = np.divmod(src, len(self.rail))
        d2, g2 = np.divmod(dst, len(self.rail))
        m = np.maximum(self.gamma[src], self.gamma[dst])
        rows = np.flatnonzero(g1 == g2)
        m[rows] = (
            ratio(self.rail[g1[rows]], self.domain[d1[rows]] * self.domain[d2[rows]]) if detour else np.inf
        )
        m[d1 == d2] = np.inf
        return m

    def bars(self, m: Float) -> Float:
        """The score that a rail must exceed to be routable: m x margin, ties counting as equal."""
        return m * self.margin + EQUAL_WITHIN


def _without(weak: Bool, fabric: Fabric, group: NodeGroup, others: Float, scores: Float) -> Float:
    """The scores (size,) of the switches of a group; of those with a weak link that of their other links."""
    touched = np.zeros(fabric.n_nodes + 1, bool)
    touched[fabric.link_element[weak[:-1]]] = True
    at = slice(group.first, group.first + group.size)
    return np.where(touched[at], others[at], scores)


def is_full(fabric: Fabric) -> bool:
    """Whether a GPU is at every place of the grid of domains and rails, its id the number of its place."""
    domains, rails = fabric.group("domain"), fabric.group("rail")
    switches = (domains and domains.size, rails and rails.size)
    return fabric.groups[0].places is None and fabric.groups[0].shape == switches


def ratio(above: Float, below: Float) -> Float:
    """above / below, +inf where below is 0: such a domain forces the rail side."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(below > 0, above / below, np.inf)
