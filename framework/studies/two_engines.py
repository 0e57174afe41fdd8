"""One experiment on two engines: the second at the rate scale that the first chose, and with the latency of
packets that the first measured, if it is a model that takes one."""

from collections.abc import Callable, Sequence

from railweave.framework.errors import InputError, RunFailedError
from railweave.framework.experiment.engines import DEFAULT, predicting
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.agreement import Agreement, agreement
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner


def engines_of(names: Sequence[str], registers: Registers) -> tuple[str, str]:
    """Two different engines; the default one and the one that predicts where none are named. Raises
    InputError for fewer or more of them."""
    usual = DEFAULT, predicting(registers)
    if not names:
        return usual
    if len(names) != 2 or len(set(names)) != 2:
        listed = ", ".join(names) or "none"
        raise InputError(f"engines: expects two different ones, such as {','.join(usual)} (got {listed}).")
    return names[0], names[1]


def run_both(
    plans: tuple[Plan, Plan],
    registers: Registers,
    directory: Callable[[str], RunDirectory | None],
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> Agreement:
    """Run the plans of one experiment on two engines and compare the results. `directory`: that of the run of
    an engine, by its name.

    Raises RunFailedError, with the engine's name, where one of the runs fails.
    """
    names = plans[0].experiment.engine.name, plans[1].experiment.engine.name
    results: list[RunResult] = []
    for name, plan in zip(names, plans, strict=True):
        pinned = _like(results[0], plan) if results else plan
        events = (lambda event: None) if results else on_event
        try:
            results.append(runner.run(pinned, registers, directory(name), events))
        except RunFailedError as error:
            raise type(error)(f"engine {name}: {error}") from error
    return agreement(names, (results[0], results[1]))


def _like(first: RunResult, plan: Plan) -> Plan:
    latency_us = first.fabric.packet_latency_us
    return plan.at_scale(first.fabric.rate_scale, None if latency_us is None else latency_us * 1e-6)
