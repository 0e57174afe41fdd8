"""Node groups on full and partial grids, and one-way cables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import FabricError, UnsupportedFabricError
from railweave.framework.hookspecs import Router
from railweave.framework.model import FabricBuilder, HealthSnapshot, NodeGroup, Path
from railweave.framework.model.addressing import ipv4, ipv4_text
from railweave.framework.model.capabilities import MEANINGS, require, why_unserved
from railweave.framework.model.coordinates import Counting
from railweave.plugins.ecmp.router import Ecmp
from railweave.plugins.hscore.router import HScore
from railweave.plugins.shortest.router import Shortest
from railweave.plugins.spray.router import Spray
from tests.fakes.fake_switch import FakeFabric, compile_rules
from tests.fakes.small_fabrics import rail_only, ring, torus, unequal
from tests.fakes.sound_tables import check_table

GRIDS = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@given(GRIDS, st.data())
def test_explicit_places_agree_with_the_grid_they_are_taken_from(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    grid = NodeGroup("gpu", 7, shape, "g")
    rows = data.draw(st.lists(st.integers(0, grid.size - 1), min_size=1, unique=True))
    some = NodeGroup("gpu", 7, shape, "g", grid.all_coordinates[rows])
    assert some.size == len(rows)
    for i, row in enumerate(rows):
        assert some.coordinates(7 + i) == grid.coordinates(7 + row)
        assert some.name(7 + i) == grid.name(7 + row)
        assert some.node_at(grid.coordinates(7 + row)) == 7 + i
    for row in set(range(grid.size)) - set(rows):
        assert some.node_at(grid.coordinates(7 + row)) is None
    assert (some == grid) == (rows == list(range(grid.size)))
    assert some.node_at([*shape]) is None


@pytest.mark.parametrize(
    ("shape", "places", "why"),
    [
        ((2, 2), [[0, 0], [0, 0]], "same coordinates"),
        ((2, 2), [[0, 2]], "outside the shape"),
        ((2, 2), [[0, -1]], "outside the shape"),
        ((2, 2), [[0], [1]], r"\(2, 1\) must be \(nodes, 2\)"),
        ((0, 2), [[0, 0]], "1 or more"),
    ],
)
def test_impossible_places_are_refused(shape: tuple[int, ...], places: Sequence[object], why: str) -> None:
    with pytest.raises(FabricError, match=why):
        NodeGroup("gpu", 0, shape, "g", np.array(places))


def test_unequal_domains_have_names_addresses_and_coordinates() -> None:
    fabric = unequal(3, 1, 2)
    assert [fabric.node_name(i) for i in range(6)] == ["g0.0", "g0.1", "g0.2", "g1.0", "g2.0", "g2.1"]
    assert ipv4_text(ipv4(fabric, 5)) == "10.2.1.1"
    assert fabric.gpu_coordinates.tolist()[3] == [1, 0]
    assert Counting(1).gpu(fabric, "3,2", "SRC") == 5
    with pytest.raises(Exception, match="no such gpu"):
        Counting(0).gpu(fabric, "1,1", "SRC")


@pytest.mark.parametrize("router", [Shortest(), Ecmp(), HScore(), Spray()])
def test_unequal_domains_are_routed_and_compiled(router: Router) -> None:
    fabric = unequal(3, 1, 2)
    health = HealthSnapshot.healthy(fabric)
    table = router.routes(fabric, health)
    assert check_table(fabric, table, health).pairs == 30
    fake = FakeFabric(fabric, compile_rules(fabric, table))
    pairs = [(src, dst) for src in range(6) for dst in range(6) if src != dst]
    assert all(fake.send(src, dst).delivered == dst for src, dst in pairs)


def test_capabilities_are_read_from_nodes_and_links() -> None:
    of_rails = {"domains", "rails", "isolated-rails", "interfaces", "two-way"}
    assert rail_only(2, 3).capabilities == {"lattice", *of_rails}
    assert unequal(2, 1).capabilities == of_rails
    assert torus(3, 4).capabilities == {"lattice", "wrap", "two-way"}
    assert ring(4).capabilities == {"lattice", "ring", "two-way", "wavelengths"}
    assert all(word in MEANINGS for fabric in (rail_only(2, 2), ring(3)) for word in fabric.capabilities)


def test_a_chain_is_no_ring_and_a_mesh_does_not_wrap() -> None:
    chain = FabricBuilder("chain", [NodeGroup("gpu", 0, (4,), "g")], {}, traits=("lossless",))
    for a, b in pairwise(range(4)):
        chain.cables([a], [b], ("x+", "x-"), 1e9, one_way=a == 0)
    assert chain.build().capabilities == {"lattice", "lossless"} and chain.build().lossless.all()


def test_lossless_is_a_trait_where_all_links_are() -> None:
    for second, some in ((True, 4), (False, 2)):
        builder = FabricBuilder("chain", [NodeGroup("gpu", 0, (3,), "g")], {})
        builder.cables([0], [1], "e", 1e9, lossless=True)
        builder.cables([1], [2], "e", 1e9, lossless=second)
        fabric = builder.build()
        assert fabric.lossless.sum() == some and "lossless" in fabric.capabilities
        assert fabric.traits == (("lossless",) if second else ())


def test_a_router_is_refused_by_the_capability_that_lacks() -> None:
    fabric = ring(3)
    assert why_unserved(HScore(), rail_only(2, 2)) == why_unserved(HScore(), unequal(2, 1)) == ""
    assert why_unserved(HScore(), fabric).endswith("this fabric lacks domains, interfaces")
    with pytest.raises(
        UnsupportedFabricError, match=r"router hscore does not serve this ring.*lacks domains, interfaces"
    ):
        HScore().routes(fabric, HealthSnapshot.healthy(fabric))
    with pytest.raises(UnsupportedFabricError, match="lacks rails, wrap, ocs"):
        require(fabric, "mine", ("rails", "wrap", "ocs"))
    assert why_unserved(Shortest(), fabric) == ""


def test_kinds_and_capabilities_must_both_fit() -> None:
    class Picky:
        serves = ("ring",)
        requires = ("wavelengths",)

    assert why_unserved(Picky(), ring(4)) == ""
    assert why_unserved(Picky(), rail_only(2, 2)) == "it serves ring"
    Picky.serves = ("*",)
    assert "lacks wavelengths" in why_unserved(Picky(), torus(3))


def test_arrays_are_frozen_and_compared_by_value() -> None:
    health = HealthSnapshot.healthy(ring(3))
    assert health == HealthSnapshot.healthy(ring(3)) and health != HealthSnapshot.healthy(ring(4))
    with pytest.raises(ValueError, match="read-only"):
        health.down[0] = True
    with pytest.raises(TypeError, match="unhashable"):
        hash(health)
    assert Path((1,)) == Path((1,))


def test_domains_and_rails_are_numbered_by_the_coordinates_of_gpus() -> None:
    """GPUs of one coordinate have no rails; with more domains than switches there are no domains."""
    for places, wanted in (
        ([(0,), (1,)], {"domains"}), ([(0, 0), (1, 0)], {"domains", "rails"}), ([(0, 0), (2, 1)], {"rails"}),
    ):  # fmt: skip
        groups = [
            NodeGroup.at("gpu", 0, places, "g"),
            NodeGroup("domain", 2, (2,), "d"),
            NodeGroup("rail", 4, (2,), "r"),
        ]
        builder = FabricBuilder("mine", groups, {})
        builder.cables([0, 1], [2, 3], "d", 1e9)
        assert builder.build().capabilities & {"domains", "rails"} == wanted
