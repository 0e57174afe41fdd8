"""One browser for all tests, runs of the fluid engine that several open, and reports of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.web import browser as chromium
from tests.web import fabrics

Open = Callable[..., AbstractContextManager[chromium.Opened]]
RunOf = Callable[[str], Path]


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    if chromium.PROGRAM is None:
        pytest.skip(chromium.MISSING)
    with chromium.chromium() as running:
        yield running


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> RunOf:
    """The directory of a run on a fabric of FABRICS, computed when it is first wanted; it has its report."""
    parent = tmp_path_factory.mktemp("runs")

    def run(name: str) -> Path:
        return parent / name if (parent / name).exists() else fabrics.run(name, parent / name)

    return run


@pytest.fixture
def opened(browser: chromium.Browser) -> Open:
    """Opens an address or a file; a page that says or asks anything while it is open fails the test."""
    return partial(chromium.opened, browser)


@pytest.fixture
def run(run_of: RunOf) -> Path:
    """16 GPUs, rail 1 of which slows down."""
    return run_of("rail-only")


@pytest.fixture
def address(run: Path) -> str:
    return (run / "report.html").as_uri()
