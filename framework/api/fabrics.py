"""What commands ask of a fabric alone: its figures, pictures and files."""

import json

from railweave.framework.analysis.fabric_cost import FabricCost, cost, read_prices
from railweave.framework.analysis.topology_metrics import TopologyMetrics, metrics
from railweave.framework.model import Fabric

__all__ = ["FabricCost", "TopologyMetrics", "cost", "exported", "graph", "metrics", "read_prices"]


def graph(fabric: Fabric, form: str) -> str:
    """The fabric as svg, a picture, or as graphml or json (node-link), the graph for other programs.

    >>> picture = graph(rw.topology("rail-only", domains=2, rails=2), "svg")
    >>> picture.startswith("<svg")
    True
    """
    from railweave.framework import drawing

    if form == "json":
        return json.dumps(drawing.node_link(fabric), indent=1, allow_nan=False) + "\n"
    return drawing.svg(fabric) if form == "svg" else drawing.graphml(fabric)


def exported(fabric: Fabric, form: str) -> tuple[str, tuple[str, ...]]:
    """The fabric as a file that `--topology file:FILE` reads (docs/fabrics.md), and what that leaves out.

    >>> text, lost = exported(rw.topology("rail-only", domains=2, rails=2), "railweave")
    >>> text.splitlines()[0], lost
    ('fabric: 1', ())
    """
    from railweave.framework.fabric_files import text_of

    return text_of(fabric, form)
