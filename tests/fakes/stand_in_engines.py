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

    def carry_out(self, plan: Plan, *rest: Any) -> Findings:
        slow = replace(plan.fabric, capacity_bps=plan.fabric.capacity_bps * 0.8)
        return super().carry_out(replace(plan, fabric=slow), *rest)


class Lab(Engine):
    """An engine that is no model, whose links have 4/5 of their rates."""

    summary = "stands for a lab"
    packets = False

    def run(self, document: Any, emit: Any, directory: Any = None, pcap: Any = None) -> Findings:
        registers = load_plugins()
        plan = from_document({**document, "engine": {"name": "fluid"}}, registers)
        scaled = replace(plan.fabric, capacity_bps=plan.fabric.capacity_bps * 0.8)
        return FluidEngine().carry_out(replace(plan, fabric=scaled), registers, emit, directory)


class Late(Engine):
    """An engine that is no model: its packets take 2 ms, and its rate scale is 1e-5."""

    summary = "stands for a lab with a latency"
    packets = False

    def run(self, document: Any, emit: Any, directory: Any = None, pcap: Any = None) -> Findings:
        registers = load_plugins()
        plan = from_document({**document, "engine": {"name": "fluid"}}, registers).at_scale(1e-5, 2e-3)
        return FluidEngine().carry_out(plan, registers, emit, directory)


def with_stand_ins() -> Registers:
    """The installed plugins, and these engines."""
    registers = load_plugins()
    registers["engine"].add("tests", "slower", Slower())
    registers["engine"].add("tests", "lab", Lab())
    registers["engine"].add("tests", "late", Late())
    return registers
