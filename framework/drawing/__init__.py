"""A fabric as a picture (SVG) or as a graph that other programs read (GraphML, node-link JSON)."""

from railweave.framework.drawing.graphs import graphml, node_link
from railweave.framework.drawing.picture import svg

__all__ = ["graphml", "node_link", "svg"]
