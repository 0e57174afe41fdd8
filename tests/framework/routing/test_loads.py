"""Link loads by closed form and by adding up paths one at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest

from railweave.framework.model import all_pairs
from railweave.framework.routing.loads import all_to_all_loads, link_loads
from tests.fakes.random_routes import FABRICS, random_table
from tests.fakes.small_fabrics import dimension_order, rail_only, rail_path, table_of, torus


def test_dimension_order_loads_every_link_of_4x4x4_alike() -> None:
    """By hand: 32 units on every directed link, the optimum: 64 nodes x 192 hops / 384 links."""
    fabric = torus(4, 4, 4)
    table = table_of(fabric, lambda src, dst: [dimension_order(fabric, src, dst)])
    found = all_to_all_loads(fabric, table)
    assert np.array_equal(found.load, np.full(384, 32.0))
    assert found.unroutable == 0


def test_rail_only_all_to_all_by_hand() -> None:
    """dr on y domains of x: a NIC's d-link out carries all but its own rail, x(y-1)... to y domains and (x-1)
    ranks: y(x-1); its rail link out what all x of its domain send to the y-1 others of its rail: x(y-1)."""
    x, y, amount = 4, 3, 2.5
    fabric = rail_only(y, x)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    load = all_to_all_loads(fabric, table, amount, chunk=7).load
    kind = np.array([fabric.kinds[k] for k in fabric.link_kind])
    assert np.allclose(load[kind == "d"], amount * y * (x - 1))
    assert np.allclose(load[kind == "r"], amount * x * (y - 1))


@pytest.mark.parametrize("kind", sorted(FABRICS))
@pytest.mark.parametrize("chunk", [3, 1 << 18])
def test_against_adding_up_one_path_at_a_time(kind: str, chunk: int) -> None:
    fabric, rng = FABRICS[kind](), random.Random(kind)
    table = random_table(fabric, rng, cut=0.2)
    src, dst = all_pairs(fabric.n_gpus)
    src, dst = np.append(src, 0), np.append(dst, 0)
    amount = np.array([rng.choice([0, 1, 2.5]) for _ in src])
    wanted, lost, cut = np.zeros(fabric.n_links), 0.0, []
    for s, d, a in zip(src.tolist(), dst.tolist(), amount.tolist(), strict=True):
        paths = table.path(s, d) if s != d else ()
        for path in paths:
            for link in path.links:
                wanted[link] += a * path.weight
        if not paths and a and s != d:
            lost += a
            cut.append([s, d])
    found = link_loads(fabric, table, src, dst, amount, chunk=chunk)
    assert np.allclose(found.load, wanted)
    assert found.unroutable == lost
    assert found.unreachable.tolist() == cut
