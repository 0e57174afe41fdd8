"""Two channels and a dateline leave no cycle of channels that wait for each other; one channel does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable, all_pairs
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.dependencies import channel_cycle
from railweave.plugins.dor.router import DimensionOrder
from tests.fakes.tori import torus, twisted


def table_of(fabric: Fabric) -> RouteTable:
    return DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric))


@pytest.mark.parametrize(
    "fabric",
    [
        torus(4, 4, 4), torus(6, 6, 6), torus(4, 4, 8), torus(5, 3), torus(9), torus(2, 2, 5),
        twisted(4, 4, 8), twisted(4, 8, 8),
    ],
)  # fmt: skip
def test_no_channel_waits_for_itself(fabric: Fabric) -> None:
    assert channel_cycle(fabric, table_of(fabric)) is None


@pytest.mark.parametrize("fabric", [torus(6, 6, 6), torus(5, 5), twisted(4, 8, 8)])
def test_without_the_second_channel_there_is_a_cycle(fabric: Fabric) -> None:
    table = table_of(fabric)

    def one_channel(src: Int64, dst: Int64) -> PathBatch:
        return replace(table.paths(src, dst), vc=None)

    cycle = channel_cycle(fabric, replace(table, resolve=one_channel))
    assert cycle is not None and len(cycle) > 2


@pytest.mark.parametrize("fabric", [torus(6, 6, 6), twisted(4, 4, 8)])
def test_two_channels_are_enough(fabric: Fabric) -> None:
    channels = table_of(fabric).paths(*all_pairs(fabric.n_gpus)).vc
    assert channels is not None and set(channels.tolist()) == {0, 1}
