"""Nodes by their coordinates, counted from 0, or from 1 as the sources do."""

import re
from dataclasses import dataclass

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.model import Fabric, NodeGroup


@dataclass(frozen=True, slots=True)
class Counting:
    """Coordinates whose first index is `first`. Node and link names (g0.0, r4) count from 0 whatever this
    is."""

    first: int = 0

    def place(self, fabric: Fabric, node: int) -> tuple[int, ...]:
        return tuple(c + self.first for c in fabric.coordinates(node))

    def name(self, fabric: Fabric, node: int) -> str:
        """`rail 5`, `gpu 1,1`."""
        return f"{fabric.node_kind(node)} {','.join(map(str, self.place(fabric, node)))}"

    def node(self, group: NodeGroup, text: str, subject: str, axes: str = "") -> int:
        """The node of `group` at the coordinates in `text`, such as `1,0,0`.

        `subject` is what the message blames (`SRC 9,9`). Raises ExperimentError that says which coordinates
        exist.
        """
        parts = [part.strip() for part in text.split(",")]
        numbers = [int(p) if p.isascii() and p.isdecimal() and len(p) < 10 else None for p in parts]
        size = len(group.shape)
        ranges = ",".join(f"{self.first}..{length - 1 + self.first}" for length in group.shape)
        ranges += f" ({axes})" if axes else ""
        if len(parts) != size:
            raise ExperimentError(
                f"{subject}: a {group.kind} has {size} coordinate{'s' * (size > 1)} here, not {len(parts)}. "
                f"Write one of {ranges}."
            )
        node = group.node_at([-1 if n is None else n - self.first for n in numbers])
        if node is None:
            raise ExperimentError(f"{subject}: there is no such {group.kind}; there are {ranges}.")
        return node

    def gpu(self, fabric: Fabric, text: str, subject: str) -> int:
        """The GPU at the coordinates in `text`, or of that name (`g1.1`)."""
        node = fabric.node_ids.get(text.strip(), fabric.n_nodes)
        if node < fabric.n_gpus:
            return node
        if node < fabric.n_nodes:
            kind = fabric.node_kind(node)
            raise ExperimentError(f"{subject} {text}: this is a {kind}, not a GPU. {_first(fabric)}")
        if re.search("[A-Za-z]", text) and "," not in text:
            near = did_you_mean(text, fabric.node_ids) if fabric.n_gpus < 2000 else ""
            why = f"this fabric has no node of that name.{near} {_first(fabric)}"
            raise ExperimentError(f"{subject} {text}: {why}")
        return self.node(fabric.groups[0], text, f"{subject} {text}", ",".join(fabric.axis_names))


def _first(fabric: Fabric) -> str:
    return f"Its GPUs are {fabric.node_name(0)} to {fabric.node_name(fabric.n_gpus - 1)}."
