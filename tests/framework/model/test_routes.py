"""Nested ranges of paths hold whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
import pytest

from railweave.framework.errors import RouteError
from railweave.framework.model import Path, PathBatch, RouteTable
from railweave.topologies.rail_only import RailOnly


@pytest.mark.parametrize("name", ["src", "links", "hop_start"])
def test_ids_are_whole_numbers(name: str) -> None:
    """1.9 would silently be link 1."""
    fields: dict[str, Any] = {
        "src": [0],
        "dst": [1],
        "pair_start": [0, 1],
        "weight": [1.0],
        "hop_start": [0, 1],
        "links": [0],
    }
    fields[name] = np.array(fields[name], np.float64)
    with pytest.raises(RouteError, match=f"its {name} are float64, such as 0.0, and ids are whole numbers"):
        PathBatch(**fields)


def test_paths_of_equal_shares() -> None:
    """Two paths, none, and one of two links: by hand."""
    batch = PathBatch.evenly(np.array([0, 0, 1]), np.array([1, 2, 2]), [[[4], [6]], [], [[8, 2]]])
    assert batch.pair_start.tolist() == [0, 2, 2, 3]
    assert batch.weight.tolist() == [0.5, 0.5, 1.0]
    assert batch.hop_start.tolist() == [0, 1, 2, 4]
    assert batch.links.tolist() == [4, 6, 8, 2]


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        (lambda link: [Path((link,), 0.0)], "a path has the weight 0.0. Give a positive number"),
        (lambda link: [Path((link,), float("nan"))], "a path has the weight nan"),
        (lambda link: [(0.5, [link])], r"\(0.5, \[0\]\) is no path. Give a list of link ids, or a Path"),
        (lambda link: repeat([link]), "more than 16384 paths"),
    ],
)
def test_what_is_no_path_of_a_pair_is_named(ways: Callable[[int], Any], words: str) -> None:
    """The last one never ends."""
    fabric = RailOnly().build({"domains": 2, "rails": 2})
    table = RouteTable.of(fabric, lambda src, dst: ways(0))
    with pytest.raises(RouteError, match=f"g0.0 -> g0.1: .*{words}"):
        table.path(0, 1)
