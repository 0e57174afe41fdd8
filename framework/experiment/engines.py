"""Which of the engines that there are does what another cannot."""

from railweave.framework.errors import PluginError
from railweave.framework.experiment.schema import Experiment
from railweave.framework.registry import Registers

DEFAULT: str = Experiment.model_fields["engine"].default.name
"""The engine of an experiment that names none."""


def computing(registers: Registers) -> list[str]:
    """The engines that compute runs in the process that asks."""
    return [name for name, engine in registers["engine"].items() if engine.predicts]


def predicting(registers: Registers) -> str:
    """The engine that says what a run on another one should take; the first by name, if there are several.
    Raises PluginError without one."""
    if not (names := computing(registers)):
        raise PluginError("no engine is installed that predicts runs (docs/plugins.md).")
    return names[0]


def instead(registers: Registers) -> str:
    """`, or use --engine NAME`: what to do where a lab cannot; "" without an engine that computes runs."""
    names = computing(registers)
    return f", or use `--engine {names[0]}`" if names else ""
