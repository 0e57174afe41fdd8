"""Engines that each break one rule; all else is the built-in `fluid`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import hookimpl
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers, load_plugins
from railweave.plugins.fluid.engine import FluidEngine


class Changed(FluidEngine):
    """Sound findings, changed; the class itself configures nothing."""

    def __init__(self, change: Callable[[Findings], Any] = lambda findings: findings) -> None:
        self._change = change

    def configured(self, options: Mapping[str, Any]) -> Any:
        return self

    def run(self, plan: Plan, *rest: Any) -> Any:
        return self._change(super().run(plan, *rest))


def times(factor: float) -> Callable[[Findings], Findings]:
    """Iterations take `factor` times as long."""

    def change(findings: Findings) -> Findings:
        records = (
            replace(record, result=replace(record.result, seconds=record.result.seconds * factor))
            for record in findings.iterations
        )
        return replace(findings, iterations=tuple(records))

    return change


def without_bytes(findings: Findings) -> Findings:
    """A tenth of the bytes is lost on the way."""
    return replace(findings, links=replace(findings.links, sent_bytes=findings.links.sent_bytes * 0.9))


class IgnoresFaults(Changed):
    def run(self, plan: Plan, *rest: Any) -> Any:
        return super().run(replace(plan, faults=()), *rest)


class Records(Changed):
    """Says that faults were injected, and goes on as before."""

    def run(self, plan: Plan, *rest: Any) -> Any:
        seconds = super().run(replace(plan, faults=()), *rest).iterations[0].result.seconds
        slow = super().run(plan, *rest)
        records = (replace(r, result=replace(r.result, seconds=seconds)) for r in slow.iterations)
        return replace(slow, iterations=tuple(records))


class Lacks(Changed):
    """Without some words of `lacks`, with others."""

    def __init__(self, without: tuple[str, ...] = (), **more: str) -> None:
        super().__init__()
        kept = {word: why for word, why in FluidEngine.lacks.items() if word not in without}
        self.lacks = {**kept, **more}


class GoesOn(Changed):
    """Does not end on Ctrl-C."""

    def run(self, plan: Plan, *rest: Any) -> Any:
        try:
            return super().run(plan, *rest)
        except KeyboardInterrupt:
            return super().run(plan, rest[0], lambda event: None)


class LeavesAThread(Changed):
    """Forgets a thread when it is interrupted."""

    def run(self, plan: Plan, *rest: Any) -> Any:
        try:
            return super().run(plan, *rest)
        except KeyboardInterrupt:
            threading.Timer(1.0, int).start()
            raise


class Silent(Changed):
    """Emits nothing."""

    def run(self, plan: Plan, *rest: Any) -> Any:
        return super().run(plan, rest[0], lambda event: None)


class Moody(Changed):
    """Slower with every run."""

    def __init__(self) -> None:
        super().__init__()
        self._runs = 0

    def run(self, plan: Plan, *rest: Any) -> Any:
        self._runs += 1
        return times(1 + 1e-4 * self._runs)(super().run(plan, *rest))


class Raises(Changed):
    def run(self, plan: Plan, *rest: Any) -> Any:
        raise ZeroDivisionError("division by zero")


class NoEstimate(Changed):
    def estimate(self, plan: Plan) -> Any:
        return 12


class _Offers:
    def __init__(self, name: str, engine: Any) -> None:
        self._name, self._engine = name, engine

    @hookimpl
    def register_engines(self, register: Callable[[str, Any], None]) -> None:
        register(self._name, self._engine)


def with_engine(name: str, engine: Any) -> Registers:
    """Everything installed, and this engine."""
    return Registers([*load_plugins().manager.list_name_plugin(), ("stranger", _Offers(name, engine))])
