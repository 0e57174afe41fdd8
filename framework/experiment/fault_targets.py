"""The objects that faults act on: links and nodes of a fabric by their names."""

import numpy as np

from railweave.framework.errors import FaultError, did_you_mean
from railweave.framework.experiment.circuit_board import unit_named
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.model.arrays import Int64


def links_and_node(fabric: Fabric, kind: str, name: str) -> tuple[Int64, int]:
    """The directed links of an object, ascending, and its node, or -1 where it is none.

    Kinds: link (that direction alone), switch (every link of a node), ocs (every link over it), nic (a GPU's
    rail cables), and the fabric's own: gpu (all its links), rail, domain, ... (the links of that switch), and
    units that can be replaced, such as cube (all links of its GPUs).
    Raises FaultError that says what there is instead.
    """
    match kind:
        case "link":
            return np.array([find_link(fabric, name)]), -1
        case "switch":
            node = _switch(fabric, name)
            return touching(fabric, node), node
        case "ocs":
            return np.flatnonzero(fabric.ocs == _ocs(fabric, name)), -1
        case "nic":
            return _nic(fabric, name)
    group = fabric.group(kind)
    if group is None:
        if fabric.circuits is not None and (unit := fabric.circuits.unit(kind)):
            members = unit_named(fabric, unit, name)[1]
            return np.flatnonzero(members[fabric.link_src] | members[fabric.link_dst]), -1
        raise FaultError(_no_such_kind(fabric, kind))
    node = _member(group, kind, name)
    links = touching(fabric, node) if kind == "gpu" else fabric.element_links(node)
    return (links if links.size else touching(fabric, node)), node


def find_link(fabric: Fabric, name: str) -> int:
    """The id of the link called `name` (as `Fabric.link_name` gives it: FROM->TO, `#n` for parallel ones).

    Raises FaultError that says which end is unknown, or which links leave FROM.
    """
    ends, _, _ = name.partition("#")
    source, arrow, target = ends.partition("->")
    if not arrow:
        raise FaultError(f"{name!r} is not a link; write FROM->TO, such as {fabric.link_name(0)}.")
    for end in (source, target):
        if end not in fabric.node_ids:
            raise FaultError(f"link {name!r}: there is no node {end!r}.{did_you_mean(end, fabric.node_ids)}")
    out = fabric.out_links(fabric.node_ids[source])
    names = {
        fabric.link_name(int(link)): int(link)
        for link in out
        if fabric.link_dst[link] == fabric.node_ids[target]
    }
    if name in names:
        return names[name]
    if names:
        many = f"{len(names)} parallel links join them" if len(names) > 1 else "one link joins them"
        raise FaultError(f"link {name!r}: {many}; write {' or '.join(names)}.")
    listed = ", ".join(fabric.link_name(int(link)) for link in out[:8]) + (", ..." if len(out) > 8 else "")
    raise FaultError(f"link {name!r}: {source} has no link to {target}; its links are {listed}.")


def touching(fabric: Fabric, node: int) -> Int64:
    """The links that leave or reach a node."""
    return np.flatnonzero((fabric.link_src == node) | (fabric.link_dst == node))


def _switch(fabric: Fabric, name: str) -> int:
    if name not in fabric.node_ids:
        like = (
            did_you_mean(name, fabric.node_ids) or f" Names look like {fabric.node_name(fabric.n_nodes - 1)}."
        )
        raise FaultError(f"there is no switch {name!r}.{like}")
    return fabric.node_ids[name]


def _ocs(fabric: Fabric, name: str) -> int:
    if not fabric.ocs_names:
        raise FaultError(f"a {fabric.kind} fabric has no optical circuit switches (ocs).")
    if name not in fabric.ocs_names:
        names = fabric.ocs_names
        listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        raise FaultError(f"there is no ocs {name!r}; there are {listed}.{did_you_mean(name, names)}")
    return fabric.ocs_names.index(name)


def _nic(fabric: Fabric, name: str) -> tuple[Int64, int]:
    """The cables between a GPU and the rails, both directions."""
    rails = fabric.group("rail")
    if rails is None:
        raise FaultError(
            f"{_no_such_kind(fabric, 'nic')} A nic is a GPU's cable onto its rail; for all links of a GPU "
            f"write gpu:{name}."
        )
    node = _member(fabric.groups[0], "nic", name)
    links = touching(fabric, node)
    far = np.where(fabric.link_src[links] == node, fabric.link_dst[links], fabric.link_src[links])
    return links[(far >= rails.first) & (far < rails.first + rails.size)], node


def _no_such_kind(fabric: Fabric, kind: str) -> str:
    node_kinds = [group.kind for group in fabric.groups]
    nic = ["nic"] if "rail" in node_kinds else []
    units = [] if fabric.circuits is None else [unit.kind for unit in fabric.circuits.units]
    kinds = [node_kinds[0], *nic, *node_kinds[1:], "link", "switch", *(["ocs"] if fabric.ocs_names else [])]
    kinds += [unit for unit in units if unit not in kinds]
    return f"a {fabric.kind} fabric has no {kind}; it has: {', '.join(kinds)}.{did_you_mean(kind, kinds)}"


def _member(group: NodeGroup, kind: str, name: str) -> int:
    """The node of a group, by its coordinates: rail:1, gpu:1.2."""
    parts = name.split(".")
    ranges = ".".join(f"0..{length - 1}" for length in group.shape)
    if len(parts) != len(group.shape) or not all(p.isascii() and p.isdecimal() for p in parts):
        raise FaultError(
            f"'{kind}:{name}' is not a {kind}; here they are {kind}:{ranges}, such as "
            f"{kind}:{'.'.join('0' for _ in group.shape)}."
        )
    node = group.node_at([int(p) for p in parts])
    if node is None:
        raise FaultError(f"there is no {kind}:{name}; this fabric has {kind}:{ranges} (all count from 0).")
    return node
