"""RailS: every domain spreads what it sends over its rails, the longest messages first.

Source: Xu et al., "RailS: Load balancing for all-to-all communication in distributed mixture-of-experts
training", arXiv 2510.19262. Each domain by itself gives its messages, in `pieces`, to the rail that has least
so far (longest processing time first); over another rail than its own a message crosses both domains.

    railweave run --plugin examples/plugins/rails.py --router rails --collective all-to-all
"""

from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import Path, RouteTable
from railweave.framework.model.capabilities import require
from railweave.framework.parameters import Parameter
from railweave.framework.routing.equal_cost import ShortestPaths

API = 1


class Rails(Router):
    summary = "messages over the least loaded rails of their domain, longest first; by demand"
    parameters = (Parameter("pieces", 4, "count", "parts of a message", minimum=1, maximum=64),)
    requires = ("domains", "isolated-rails", "interfaces")
    wants_demand = True

    def __init__(self, pieces=4):
        self.pieces = pieces

    def configured(self, options):
        return Rails(int(options["pieces"]))

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health, demand):
        require(fabric, "rails", self.requires)
        shortest, rail = ShortestPaths(fabric, health.down, most=1), fabric.group("rail")
        of_pair, load, domain = {}, {}, fabric.gpu_coordinates[:, 0].tolist()
        sent = [(size, src, dst) for src, dst, size in demand.each()] if demand else []
        for size, src, dst in sorted(sent, reverse=True):
            every = {r: over(fabric, shortest, rail.first + r, src, dst) for r in range(rail.size)}
            ways = {r: way for r, way in every.items() if way}
            rails = load.setdefault(domain[src], dict.fromkeys(range(rail.size), 0.0))
            for _ in range(self.pieces if ways else 0):
                least = min(ways, key=rails.get)
                rails[least] += size / self.pieces
                of_pair.setdefault((src, dst), []).append(ways[least])

        def paths_of(src, dst):
            ways = of_pair.get((src, dst)) or [path.links for path in shortest(src, dst)]
            return [Path(way, ways.count(way)) for way in dict.fromkeys(ways)]

        return RouteTable.of(fabric, paths_of)


def over(fabric, shortest, rail, src, dst):
    """The path between GPUs over a rail; None within a domain, and where a link is down."""
    if fabric.gpu_coordinates[src, 0] == fabric.gpu_coordinates[dst, 0]:
        return None
    for path in (a.links + b.links for a in shortest(src, rail) for b in shortest(rail, dst)):
        nodes = [src, *fabric.link_dst[list(path)].tolist()]
        return path if len(set(nodes)) == len(nodes) else None
    return None


@hookimpl
def register_routers(register):
    register("rails", Rails())
