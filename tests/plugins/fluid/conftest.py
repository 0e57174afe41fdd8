"""The fabric of most tests."""

from __future__ import annotations

import pytest

from railweave.framework.model import Fabric
from tests.plugins.conftest import BuildRailOnly


@pytest.fixture(scope="session")
def fabric(rail_only: BuildRailOnly) -> Fabric:
    return rail_only(4, 4)
