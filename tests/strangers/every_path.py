"""A router as somebody else writes it: the packets of a pair take all its shortest paths in turn."""

from __future__ import annotations

from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import RouteTable


class EveryPath:
    summary = "all shortest paths that are up, in equal shares"
    parameters = serves = requires = ()
    damped = True

    def configured(self, options):
        return self

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health):
        return RouteTable.of(fabric, lambda src, dst: shortest(fabric, health.down, src, dst))


def shortest(fabric, down, src, dst):
    """Breadth first: every path of the fewest links, a list of links each."""
    paths, seen = {src: [[]]}, {src}
    while paths and dst not in paths:
        further = {}
        for node, so_far in paths.items():
            for link in fabric.out_links(node).tolist():
                neighbour = int(fabric.link_dst[link])
                if neighbour not in seen and fabric.usable[link] and not down[link]:
                    further.setdefault(neighbour, []).extend([*path, link] for path in so_far)
        paths, seen = further, seen | set(further)
    return paths.get(dst, [])


@hookimpl
def register_routers(register):
    register("every-path", EveryPath())
