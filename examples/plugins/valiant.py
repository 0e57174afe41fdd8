"""Valiant's load balancing: by a node drawn for each pair, so that no pattern is a bad one.

Source: Valiant, "A scheme for fast parallel communication", SIAM J. Comput. 11(2), 1982. Each pair goes over
`ways` of them in equal shares, on shortest paths; a path that meets a node twice is left out.

    railweave run --plugin examples/plugins/valiant.py --topology torus --router valiant
"""

import numpy as np

from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import RouteTable
from railweave.framework.parameters import Parameter
from railweave.framework.routing.equal_cost import ShortestPaths

API = 1


class Valiant(Router):
    summary = "shortest paths over intermediate nodes drawn for each pair"
    parameters = (
        Parameter("ways", 4, "count", "intermediate nodes of a pair", minimum=1, maximum=64),
        Parameter("seed", 1, "count", "of what is drawn", minimum=0),
    )

    def __init__(self, ways=4, seed=1):
        self.ways, self.seed = ways, seed

    def configured(self, options):
        return Valiant(int(options["ways"]), int(options["seed"]))

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health):
        shortest, link_dst = ShortestPaths(fabric, health.down, most=1), fabric.link_dst.tolist()
        top = fabric.groups[-1]  # the switches built last are the highest; GPUs where there are none
        drawn = np.random.default_rng(self.seed).permutation(top.size) + top.first

        def paths_of(src, dst):
            found = {}
            for turn in range(2 * self.ways):
                middle = int(drawn[(src * 31 + dst * 17 + turn) % top.size])
                there, on = shortest(src, middle), shortest(middle, dst)
                for path in (a.links + b.links for a in there for b in on):
                    nodes = [src, *(link_dst[link] for link in path)]
                    if len(set(nodes)) == len(nodes) and len(found) < self.ways:
                        found[path] = None
            return list(found) or shortest(src, dst)

        return RouteTable.of(fabric, paths_of)


@hookimpl
def register_routers(register):
    register("valiant", Valiant())
