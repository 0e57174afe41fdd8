from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm.image import in_use


@pytest.fixture(scope="session", autouse=True)
def images() -> Iterator[None]:
    with in_use():
        yield
