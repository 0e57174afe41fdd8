"""Engines to compare the model with where there is no lab."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railweave.framework.experiment.plan import Plan, from_document
from railweave.framework.hookspecs import Engine
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers, load_plugins
from railweave.plugins.fluid.engine import FluidEngine


class Slower(FluidEngine):
    """Links have 4/5 of their rates."""

    def run(self, plan: Plan, *rest: Any) -> Findings:
        slow = replace(plan.fabric, capacity_bps=plan.fabric.capacity_bps * 0.8)
        return super().run(replace(plan, fabric=slow), *rest)


class Lab(Engine):
    """An engine that is no model, whose links have 4/5 of their rates."""

    summary = "stands for a lab"
    packets = False

    def run(self, plan: Plan, *rest: Any) -> Findings:
        slow = replace(plan.fabric, capacity_bps=plan.fabric.capacity_bps * 0.8)
        return FluidEngine().run(replace(modelled(plan), fabric=slow), *rest)


class Late(Engine):
    """An engine that is no model: its packets take 2 ms, and its rate scale is 1e-5."""

    summary = "stands for a lab with a latency"
    packets = False

    def run(self, plan: Plan, *rest: Any) -> Findings:
        return FluidEngine().run(modelled(plan).at_scale(1e-5, 2e-3), *rest)


def modelled(plan: Plan) -> Plan:
    """The same for the engine `fluid`."""
    return from_document({**plan.document(), "engine": {"name": "fluid"}}, load_plugins())


def with_stand_ins() -> Registers:
    """The installed plugins, and these engines."""
    registers = load_plugins()
    registers["engine"].add("tests", "slower", Slower())
    registers["engine"].add("tests", "lab", Lab())
    registers["engine"].add("tests", "late", Late())
    return registers
