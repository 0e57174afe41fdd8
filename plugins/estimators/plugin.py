"""Registers the built-in health estimators."""

from collections.abc import Callable

from railweave.framework.hookspecs import Estimator, hookimpl
from railweave.plugins.estimators.formulas import Delay, Rate


@hookimpl
def register_estimators(register: Callable[[str, Estimator], None]) -> None:
    register("delay", Delay())
    register("rate", Rate())
