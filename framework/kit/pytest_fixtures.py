"""The checks of a router as a pytest fixture: `from railweave.framework.kit.pytest_fixtures import check_router`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pytest

from railweave.framework.kit.report import Report
from railweave.framework.kit.run import check_router as run_checks
from railweave.framework.registry import Registers


class CheckRouter(Protocol):
    """What the fixture gives: checks a router, fails the test with the report, or returns it."""

    def __call__(
        self,
        name: str,
        registers: Registers | None = None,
        *,
        options: Mapping[str, object] | None = None,
        scale: bool = True,
        lab: bool = False,
    ) -> Report: ...


@pytest.fixture(scope="session")
def check_router() -> CheckRouter:
    """`check_router("my-router")`: see railweave.framework.kit.run.check_router for the arguments."""

    def check(
        name: str,
        registers: Registers | None = None,
        *,
        options: Mapping[str, object] | None = None,
        scale: bool = True,
        lab: bool = False,
    ) -> Report:
        report = run_checks(name, registers, options=options, scale=scale, lab=lab)
        if not report.passed:
            pytest.fail(report.text(), pytrace=False)
        return report

    return check
