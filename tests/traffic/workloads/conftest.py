"""What the tests of workloads share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from railweave.framework.parameters import resolve
from railweave.traffic.workloads.chakra import Chakra
from tests.traffic.workloads import chakra_traces as make
from tests.traffic.workloads.chakra_runs import Ranks


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Chakra]:
    """The workload of these ranks' nodes, with options."""

    def made(ranks: Ranks, **options: object) -> Chakra:
        path = make.written(tmp_path_factory.mktemp("trace"), ranks)
        return Chakra().configured(resolve("chakra", Chakra.parameters, {"file": path, **options}))

    return made
