"""Paths as they came into use, by hand on two domains and two rails."""

from __future__ import annotations

import numpy as np

from railweave.framework import api
from railweave.framework.model import HealthSnapshot
from railweave.framework.model.findings import PathsInUse
from tests.fakes.tori import with_down


def test_every_pair_has_an_entry_of_its_time_and_a_pair_without_a_path_one_over_no_link() -> None:
    """From g0.0 to g1.0 over rail 0 and to g0.1 over domain 0; once its cables are down, over none."""
    fabric = api.topology("rail-only", domains=2, rails=2)
    names = [fabric.link_name(link) for link in range(fabric.n_links)]
    router, pairs = api.installed()["router"]["shortest"], (np.array([0, 0]), np.array([2, 1]))
    cut = with_down(fabric, [names.index("g0.0->r0"), names.index("g0.0->d0")])
    batches = [
        (since_s, router.routes(fabric, health).paths(*pairs))
        for since_s, health in ((0.0, HealthSnapshot.healthy(fabric)), (1.5, cut))
    ]
    paths = PathsInUse.of(batches)
    ranges = zip(paths.hop_start[:-1], paths.hop_start[1:], strict=True)
    hops = [[names[link] for link in paths.links[begin:end]] for begin, end in ranges]
    columns = (paths.t_s, paths.src, paths.dst, paths.weight)
    assert list(zip(*(column.tolist() for column in columns), hops, strict=True)) == [
        (0.0, 0, 2, 1.0, ["g0.0->r0", "r0->g1.0"]),
        (0.0, 0, 1, 1.0, ["g0.0->d0", "d0->g0.1"]),
        (1.5, 0, 2, 0.0, []),
        (1.5, 0, 1, 0.0, []),
    ]
