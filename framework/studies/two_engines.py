"""One experiment on several engines: all at the rate scale that the first chose, and with the latency of
packets that the first measured, where they are models that take one."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.experiment.engines import DEFAULT, predicting
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.agreement import Agreement, agreement
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner


def engines_of(names: Sequence[str], registers: Registers, most: int | None = 2) -> tuple[str, ...]:
    """Two different engines, or up to `most` (None: any number); the default one and the one that predicts
    where none are named. Raises InputError for fewer or more of them."""
    usual = DEFAULT, predicting(registers)
    if not names:
        return usual
    if len(names) < 2 or len(set(names)) < len(names) or (most is not None and len(names) > most):
        several = "two" if most == 2 else "two or more"
        listed = ", ".join(names)
        raise InputError(
            f"engines: expects {several} different ones, such as {','.join(usual)} (got {listed})."
        )
    return tuple(names)


def run_both(
    plans: tuple[Plan, Plan],
    registers: Registers,
    directory: Callable[[str], RunDirectory | None],
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> Agreement:
    """`run_on_all` for two engines."""
    return run_on_all(plans, registers, directory, on_event)[0]


def run_on_all(
    plans: Sequence[Plan],
    registers: Registers,
    directory: Callable[[str], RunDirectory | None],
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> tuple[Agreement, ...]:
    """Run the plans of one experiment on several engines, and compare each with the one before it.
    `directory`: that of the run of an engine, by its name; `on_event`: of the first run.

    Raises RunFailedError, with the engine's name, where one of the runs fails.
    """
    names = [plan.experiment.engine.name for plan in plans]
    results: list[RunResult] = []
    for name, plan in zip(names, plans, strict=True):
        pinned = _like(results[0], plan) if results else plan
        events = (lambda event: None) if results else on_event
        try:
            results.append(runner.run(pinned, registers, directory(name), events))
        except RunFailedError as error:
            raise type(error)(f"engine {name}: {error}") from error
    return tuple(agreement(pair, both) for pair, both in zip(pairwise(names), pairwise(results), strict=True))


def _like(first: RunResult, plan: Plan) -> Plan:
    latency_us = first.fabric.packet_latency_us
    return plan.at_scale(first.fabric.rate_scale, None if latency_us is None else latency_us * 1e-6)
