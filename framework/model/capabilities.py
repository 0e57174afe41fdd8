"""What a fabric offers to the routers that run on it, in words that both sides use."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

import numpy as np

from railweave.framework.errors import UnsupportedFabricError

if TYPE_CHECKING:
    from railweave.framework.model.fabric import Fabric

MEANINGS = {
    "lattice": "the GPUs fill the grid of their coordinates; without it, groups are of unequal size",
    "wrap": "GPUs alone, with links x+, x-, y+, ... both ways round every axis: a torus, twisted or not",
    "ring": "GPUs alone, each joined with the next and the last with the first",
    "two-way": "both directions of every cable carry traffic",
    "domains": "a switch per HB domain; the first coordinate of a GPU is its domain",
    "rails": "a switch per rail; the second coordinate of a GPU is its rail",
    "isolated-rails": "rails that meet in GPUs and domains only, without spines",
    "interfaces": "each GPU is at (domain, rail), with a cable to the switches of both",
    "spines": "switches that join the rails",
    "wavelengths": "parallel links told apart by wavelength",
    "ocs": "links that pass optical circuit switches",
    "lossless": "links, some or all, that wait instead of dropping, so that routes can deadlock; declared",
}
"""Every capability and its meaning. All are read from the fabric's nodes and links but those marked declared,
which a topology adds as `Fabric.traits`; a plugin's topology may declare words of its own there."""


def capabilities(fabric: "Fabric") -> frozenset[str]:
    """The capabilities of a fabric: what its nodes and links show, and its traits.

    >>> sorted(capabilities(rw.topology("rail-only", domains=2, rails=2)))
    ['domains', 'interfaces', 'isolated-rails', 'lattice', 'rails', 'two-way']
    """
    switches = {group.kind for group in fabric.groups[1:]}
    domains, rails = _numbered(fabric, "domain", 0), _numbered(fabric, "rail", 1)
    shows = {
        "lattice": fabric.groups[0].places is None,
        "wrap": not switches and _wraps(fabric),
        "ring": not switches and _is_ring(fabric),
        "two-way": bool(fabric.usable.all()),
        "domains": domains,
        "rails": rails,
        "isolated-rails": rails
        and switches == {"domain", "rail"}
        and bool(np.all((fabric.link_src < fabric.n_gpus) | (fabric.link_dst < fabric.n_gpus))),
        "interfaces": domains and rails and not _without_interface(fabric),
        "spines": "spine" in switches,
        "wavelengths": bool((fabric.wavelength >= 0).any()),
        "ocs": bool((fabric.ocs >= 0).any()),
        "lossless": bool(fabric.lossless.any()),
    }
    return frozenset({word for word, shown in shows.items() if shown} | set(fabric.traits))


class Serving(Protocol):
    """A router, a collective or a workload."""

    serves: tuple[str, ...]
    requires: tuple[str, ...]


def why_unserved(plugin: Serving, fabric: "Fabric") -> str:
    """Why a router or collective cannot run on a fabric, as words; empty if it can.

    Its `serves` names kinds of fabric, where empty or "*" is all of them; its `requires`, capabilities.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> why_unserved(rw.framework.api.installed()["router"]["dor"], fabric)
    'it requires lattice, wrap, and this fabric lacks wrap'
    """
    if plugin.serves and not {"*", fabric.kind} & set(plugin.serves):
        return f"it serves {', '.join(plugin.serves)}"
    return _why_lacking(fabric, plugin.requires)


def require(fabric: "Fabric", router: str, requires: Collection[str]) -> None:
    """Raises UnsupportedFabricError unless the fabric has these capabilities.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> require(fabric, "mine", ["rails"])
    >>> require(fabric, "mine", ["wrap"])
    Traceback (most recent call last):
    railweave.framework.errors.UnsupportedFabricError: router mine does not serve this rail-only: ...
    """
    if why := _why_lacking(fabric, requires):
        raise UnsupportedFabricError(
            f"router {router} does not serve this {fabric.kind}: {why}. "
            "Use `--router shortest`, which serves every fabric."
        )


def _why_lacking(fabric: "Fabric", requires: Collection[str]) -> str:
    lacking = [word for word in requires if word not in fabric.capabilities]
    if not lacking:
        return ""
    detail = _without_interface(fabric) if lacking == ["interfaces"] else ""
    return (
        f"it requires {', '.join(requires)}, and this fabric lacks {', '.join(lacking)}"
        f"{detail and f' ({detail})'}"
    )


def _numbered(fabric: "Fabric", kind: str, axis: int) -> bool:
    """Whether the coordinates of GPUs on an axis number the switches of a kind."""
    group, places = fabric.group(kind), fabric.gpu_coordinates
    if group is None or len(group.shape) > 1 or group.places is not None or places.shape[1] <= axis:
        return False
    return int(places[:, axis].max()) < group.size


def _without_interface(fabric: "Fabric") -> str:
    """Which GPU has no cable to the domain or rail of its coordinates, in words; empty if each has both."""
    axes = fabric.gpu_coordinates.shape[1]
    if axes != 2:
        return f"GPUs have {axes} coordinate{'s' * (axes > 1)}, not (domain, rail)"
    leaving = np.flatnonzero(fabric.link_src < fabric.n_gpus)
    for axis, group in ((0, fabric.group("domain")), (1, fabric.group("rail"))):
        if group is None:
            return ""
        switch = group.first + fabric.gpu_coordinates[:, axis]
        gpu, joined = fabric.link_src[leaving], np.zeros(fabric.n_gpus, bool)
        joined[gpu[fabric.link_dst[leaving] == switch[gpu]]] = True
        for bare in np.flatnonzero(~joined)[:1]:
            return f"{fabric.node_name(int(bare))} has no cable to {fabric.node_name(int(switch[bare]))}"
    return ""


def _wraps(fabric: "Fabric") -> bool:
    """Whether every GPU has a link in both directions of every axis; one cable serves both on an axis of
    2."""
    axes = fabric.groups[0].shape
    names = [axis + sign for axis in "xyz"[: len(axes)] for sign in "+-"]
    if len(axes) > 3 or set(fabric.kinds) != set(names):
        return False
    name_of_kind = np.array([names.index(kind) for kind in fabric.kinds])
    leaves = np.zeros((len(names), fabric.n_gpus), bool)
    leaves[name_of_kind[fabric.link_kind], fabric.link_src] = True
    up, down = leaves[0::2], leaves[1::2]
    return bool(np.where(np.array(axes)[:, None] == 2, up | down, up & down).all())


def _is_ring(fabric: "Fabric") -> bool:
    n = fabric.n_gpus
    step = (fabric.link_dst - fabric.link_src) % n
    return (
        len(fabric.groups[0].shape) == 1
        and len(np.unique(fabric.link_src[step == 1])) == n
        and bool(np.isin(step, (1, n - 1)).all())
    )
