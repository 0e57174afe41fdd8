"""Oblivious packet spray: all shortest paths in equal shares, whatever health says.

railweave run --plugin examples/plugins/oblivious.py --topology fat-tree --router oblivious
"""

from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import RouteTable
from railweave.framework.routing.equal_cost import ShortestPaths

API = 1


class Oblivious(Router):
    summary = "all shortest paths in equal shares, blind to health"

    def configured(self, options):
        return self

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health):
        return RouteTable.of(fabric, ShortestPaths(fabric, health.down))


@hookimpl
def register_routers(register):
    register("oblivious", Oblivious())
