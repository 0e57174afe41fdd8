"""Nested ranges of paths hold whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from railweave.framework.errors import RouteError
from railweave.framework.model import PathBatch


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
