"""`railweave bench routes` works; its figures are the machine's and asserted nowhere."""

from __future__ import annotations

import json
import sys

import networkx as nx
import pytest
from click.testing import CliRunner

from railweave.framework.bench.route_speed import against_networkx
from railweave.framework.cli import main
from railweave.framework.errors import RunFailedError
from railweave.framework.registry import load_plugins
from railweave.plugins.dor.router import DimensionOrder
from railweave.plugins.hscore.router import HScore
from tests.fakes.small_fabrics import rail_only, torus


def test_quick_figures() -> None:
    """Pairs and loads are known: n (n - 1), and 32 on 4x4x4."""
    shown = CliRunner().invoke(main, ["bench", "routes", "--quick", "--json"], obj=load_plugins())
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["schema"] == {"name": "railweave.bench.routes", "version": 1}
    assert (found["rail_only"]["pairs"], found["torus"]["pairs"]) == (16 * 15, 64 * 63)
    assert found["rail_only"]["shortest_s"] > 0 and found["torus"]["shortest_ratio_links"] > 0
    assert found["dor_all_to_all_loads"]["max_load"] == 32
    assert found["pairs_in_use"]["pairs"] == 4 * 16
    assert "8 of 64 sources" in found["torus"]["networkx_measured"]
    assert set(found["best_fit"]) == {"k16_per_s", "k64_per_s"}


def test_hops_of_all_pairs() -> None:
    """Rail-only 2x3: 1 + 2 peers at 2 hops, 2 at 4; torus 4x4: a sum of distances of 32 a GPU."""
    assert against_networkx(nx, rail_only(2, 3), HScore())["hops"] == 6 * (3 * 2 + 2 * 4)
    assert against_networkx(nx, torus(4, 4), DimensionOrder())["hops"] == 16 * 32


def test_other_lengths_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nx, "single_source_shortest_path", lambda graph, src: {n: [n] for n in graph})
    with pytest.raises(RunFailedError, match="router dor takes 1 hops, networkx 0"):
        against_networkx(nx, torus(4, 4), DimensionOrder())


def test_without_networkx_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    refused = CliRunner().invoke(main, ["bench", "routes", "--quick"], obj=load_plugins())
    assert refused.exit_code == 2
    assert "networkx is not installed" in refused.output and "pip install 'railweave[dev]'" in refused.output
