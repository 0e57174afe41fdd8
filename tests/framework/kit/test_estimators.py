"""An estimator that would never see a fault, or takes load for one, does not pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from railweave.framework.hookspecs import Estimator, LinkState, hookimpl
from railweave.framework.kit.check_report import CheckReport
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.registry import Registers, load_plugins

CHECK = "sees a rail at 20 %"


class Formula(Estimator):
    summary = "a formula"

    def __init__(self, formula: Callable[[Fabric, LinkState], Any], needs: tuple[str, ...] = ()) -> None:
        self._formula, self.needs = formula, needs

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Any:
        return np.where(state.up, self._formula(fabric, state), 0.0)


def checked(estimator: Formula) -> CheckReport:
    class Plugin:
        @hookimpl
        def register_estimators(self, register: Callable[[str, Any], None]) -> None:
            register("mine", estimator)

    known = Registers([*load_plugins().manager.list_name_plugin(), ("theirs", Plugin())])
    return check_plugin("estimator", "mine", known, fabrics=("rail-only", "torus"))


def served(fabric: Fabric, state: LinkState) -> Any:
    """Rate over rate, as a user would do it by hand: 0.2 for a rail at 20 %."""
    rate = np.where(np.isnan(state.service_bps), fabric.capacity_bps, state.service_bps)
    return np.clip(rate / fabric.capacity_bps, 0, 1)


@pytest.mark.parametrize(
    ("formula", "needs", "status", "words"),
    [
        (served, (), "passed", "below 0.5"),
        (lambda fabric, state: 1.0 - 0.0 * state.loss, (), "failed", "they score 1.00: below 0.5 is asked"),
        (lambda fabric, state: 0.7 + 0.3 * served(fabric, state), (), "failed", "they score 0.76"),
        (lambda fabric, state: 1e3 / (1e3 + state.queue_bytes), (), "failed", "what waits is load, no fault"),
        (lambda fabric, state: 1 - state.loss, ("loss",), "skipped", "a slow rail loses nothing"),
    ],
)
def test_a_slow_rail_must_show_and_load_must_not(
    formula: Callable[[Fabric, LinkState], Any], needs: tuple[str, ...], status: str, words: str
) -> None:
    """0.5 is what is asked of an element at 20 % (docs/results.md, faults)."""
    report = checked(Formula(formula, needs))
    outcome = next(one for one in report.outcomes if one.check == CHECK)
    assert outcome.status == status
    assert words in "\n".join([outcome.detail, *(finding.text() for finding in outcome.violations)])


def test_what_was_skipped_is_counted_apart() -> None:
    report = checked(Formula(lambda fabric, state: 1 - state.loss, ("loss",)))
    skipped = [one for one in report.outcomes if one.status == "skipped"]
    assert len(skipped) == 1
    assert report.text().endswith(f"passes {len(report.outcomes) - 1} checks, 1 skipped.")
