"""Spray weighted by health: all shortest paths, each as often as its worst link scores.

railweave run --plugin examples/plugins/weighted.py --topology fat-tree --router weighted
"""

from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import RouteTable
from railweave.framework.routing.equal_cost import ShortestPaths

API = 1


class Weighted(Router):
    summary = "all shortest paths, in shares by their worst links"
    damped = True  # its choices follow scores

    def configured(self, options):
        return self

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health):
        down, scores = health.down | (health.link_score <= 0), health.link_score
        return RouteTable.of(fabric, ShortestPaths(fabric, down, scores=scores))


@hookimpl
def register_routers(register):
    register("weighted", Weighted())
