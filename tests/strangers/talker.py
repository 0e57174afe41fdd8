"""A router as somebody else writes it, with a print left in every method."""

from __future__ import annotations

from railweave.framework.hookspecs import Explanation, hookimpl
from tests.strangers.every_path import EveryPath


class Talker(EveryPath):
    def configured(self, options):
        print("talker: configured")
        return self

    def promises(self, fabric):
        print("talker: promises")
        return ("reroutes",)

    def routes(self, fabric, health):
        print("talker: routes")
        return super().routes(fabric, health)

    def explain(self, fabric, health, src, dst, name):
        print("talker: explain")
        return Explanation(f"all shortest paths from {name(src)}")


@hookimpl
def register_routers(register):
    register("talker", Talker())
