"""The checks of plugins as a pytest fixture, `check_plugin`, to be imported into a conftest.py."""

from typing import Any, Protocol

import pytest

from railweave.framework.kit import plugin_check
from railweave.framework.kit.check_report import CheckReport


class CheckPlugin(Protocol):
    """The type of the fixture: checks a plugin, fails the test with the report, or returns it."""

    def __call__(self, kind: str, name: str, *arguments: Any, **options: Any) -> CheckReport: ...


@pytest.fixture(scope="session")
def check_plugin() -> CheckPlugin:
    """`check_plugin("router", "my-router")`; for the arguments see railweave.framework.kit.plugin_check."""

    def check(kind: str, name: str, *arguments: Any, **options: Any) -> CheckReport:
        report = plugin_check.check_plugin(kind, name, *arguments, **options)
        if not report.passed:
            pytest.fail(report.text(), pytrace=False)
        return report

    return check
