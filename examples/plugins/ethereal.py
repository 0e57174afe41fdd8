"""Ethereal: whole flows on single paths, and as few of them split as equal shares need.

Source: Addanki et al., "Ethereal: Divide and conquer network load balancing in large-scale distributed
training", arXiv 2407.00550. Of n equal flows from one switch over s paths, n - n mod s go whole to the paths
in turn; each of the r = n mod s others is split into s / gcd(r, s), so that every path carries the same.

    railweave run --plugin examples/plugins/ethereal.py --topology fat-tree --router ethereal
"""

from math import gcd

from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import Path, RouteTable
from railweave.framework.routing.equal_cost import ShortestPaths

API = 1


class Ethereal(Router):
    summary = "flows on single paths, as few split as equal shares need; by demand"
    wants_demand = True

    def configured(self, options):
        return self

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health, demand):
        shortest, chosen, flows = ShortestPaths(fabric, health.down), {}, {}
        for src, dst, size in demand.each() if demand else ():
            if paths := shortest(src, dst):
                leaf = int(fabric.link_dst[paths[0].links[0]])
                flows.setdefault((leaf, size, len(paths)), []).append((src, dst))
        for (_, _, s), pairs in flows.items():
            rest = len(pairs) % s
            for number, pair in enumerate(pairs[: len(pairs) - rest]):
                chosen[pair] = [number % s]
            for number, pair in enumerate(pairs[len(pairs) - rest :]):
                parts = s // gcd(rest, s)
                chosen[pair] = [(number * parts + part) % s for part in range(parts)]

        def paths_of(src, dst):
            paths = shortest(src, dst)
            places = [place for place in chosen.get((src, dst), [0]) if place < len(paths)]
            return [Path(paths[place].links, places.count(place)) for place in dict.fromkeys(places)]

        return RouteTable.of(fabric, paths_of)


@hookimpl
def register_routers(register):
    register("ethereal", Ethereal())
