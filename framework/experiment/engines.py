"""Which of the engines that there are does what another cannot."""

from railweave.framework.errors import PluginError
from railweave.framework.experiment.schema import Experiment
from railweave.framework.registry import Registers

DEFAULT: str = Experiment.model_fields["engine"].default.name
"""The engine of an experiment that names none."""


def predicting(registers: Registers) -> str:
    """The engine that computes what a run on another one should take; the first by name, if there are
    several. Raises PluginError without one."""
    for name, engine in registers["engine"].items():
        if engine.predicts:
            return name
    raise PluginError("no engine is installed that predicts runs (docs/plugins.md).")


def instead(registers: Registers) -> str:
    """`, or use --engine NAME`: what to do where a lab cannot; "" without an engine that computes runs."""
    computing = [name for name, engine in registers["engine"].items() if engine.predicts]
    return f", or use `--engine {computing[0]}`" if computing else ""
