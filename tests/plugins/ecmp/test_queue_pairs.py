"""Several queue pairs of a pair: each hashed by itself, whole messages to them in turn."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import plan_from_keys
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.registry import load_plugins
from railweave.plugins.ecmp import router
from railweave.plugins.ecmp.hashing import FlowHash
from railweave.plugins.ecmp.router import Ecmp
from railweave.topologies.fat_tree import FatTree

TREE = {"topology": "fat-tree", "k": 4, "collective": "permutation", "size": "1M"}


def paths(fabric: Fabric, ecmp: Ecmp) -> PathBatch:
    src, dst = np.nonzero(~np.eye(fabric.n_gpus, dtype=bool))
    return ecmp.routes(fabric, HealthSnapshot.healthy(fabric)).paths(src, dst)


def ways(batch: PathBatch) -> list[dict[tuple[int, ...], float]]:
    """The weight of each path of every pair."""
    return [
        {
            tuple(path.links): weight
            for path, weight in zip(batch.paths(pair), batch.weight[low:high], strict=True)
        }
        for pair, (low, high) in enumerate(zip(batch.pair_start[:-1], batch.pair_start[1:], strict=True))
    ]


@pytest.mark.parametrize("qps", [2, 5])
def test_the_weight_of_a_path_is_the_share_of_queue_pairs_hashed_onto_it(
    qps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = FatTree().build({"k": 4})
    several, expected = (
        ways(paths(fabric, Ecmp(qps=qps))),
        [dict[tuple[int, ...], float]() for _ in range(240)],
    )
    for number in range(qps):

        def other_port(
            fabric: Fabric, seed: int, salted: bool, queue_pair: int, number: int = number
        ) -> FlowHash:
            return FlowHash(fabric, seed, salted, number)

        monkeypatch.setattr(router, "FlowHash", other_port)
        for counted, way in zip(expected, ways(paths(fabric, Ecmp())), strict=True):
            (path,) = way
            counted[path] = counted.get(path, 0.0) + 1 / qps
    assert several == [pytest.approx(counted) for counted in expected]


def test_queue_pairs_collide_as_balls_in_bins() -> None:
    """Of 4 paths between two pods, N queue pairs of one pair use 4 (1 - (3/4)^N) in the mean; 192 pairs."""
    fabric = FatTree().build({"k": 4})
    for qps in (2, 4, 8):
        batch = paths(fabric, Ecmp(qps=qps))
        pod = fabric.gpu_coordinates[:, 0]
        used = np.diff(batch.pair_start)[pod[batch.src] != pod[batch.dst]]
        assert used.mean() == pytest.approx(4 * (1 - 0.75**qps), abs=0.25)


def test_whole_messages_unless_they_are_split_or_the_user_says_otherwise() -> None:
    registers = load_plugins()

    def chooser(**keys: object) -> str:
        return plan_from_keys(TREE | keys, registers).experiment.chooser.name

    assert chooser(router="ecmp") == "in-turn"
    assert chooser(router={"name": "ecmp", "qps": 4}) == "messages"
    assert chooser(router={"name": "ecmp", "qps": 4, "split": True}) == "in-turn"
    assert chooser(router={"name": "ecmp", "qps": 4}, chooser="random") == "random"


def test_a_model_without_packets_refuses_whole_messages_and_takes_shares() -> None:
    registers, fluid = load_plugins(), {**TREE, "engine": "fluid"}
    with pytest.raises(ExperimentError, match="choosing paths by messages: engine fluid cannot"):
        plan_from_keys(fluid | {"router": {"name": "ecmp", "qps": 4}}, registers)
    plan_from_keys(fluid | {"router": {"name": "ecmp", "qps": 4, "split": True}}, registers)
