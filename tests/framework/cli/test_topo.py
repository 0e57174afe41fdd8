"""`railweave topo show --format` and `topo metrics`, on the built-in fabrics."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.registry import Registers
from railweave.topologies import plugin

Call = Callable[..., Result]
NAMES = ["fat-tree", "rail-only", "rail-optimised", "ring", "torus", "twisted-torus"]


@pytest.fixture
def call() -> Call:
    registers = Registers([("topologies", plugin)])
    return lambda *words: CliRunner().invoke(main, list(words), obj=registers, prog_name="railweave")


@pytest.mark.parametrize("name", NAMES)
def test_show_in_every_format(call: Call, name: str) -> None:
    assert call("topo", "show", name).output.startswith(f"{name}: ")
    picture = call("topo", "show", name, "--format", "svg")
    assert picture.exit_code == 0 and ElementTree.fromstring(picture.output).tag.endswith("svg")
    by_xml = nx.read_graphml(
        io.BytesIO(call("topo", "show", name, "--format", "graphml").output.encode()), force_multigraph=True
    )
    document = json.loads(call("topo", "show", name, "--format", "json").output)
    by_json = nx.node_link_graph(document, edges="edges")
    assert set(by_xml.nodes) == set(by_json.nodes)
    assert sorted(by_xml.edges()) == sorted(by_json.edges())


@pytest.mark.parametrize("form", ["railweave", "graphml", "infragraph"])
def test_export_and_back(call: Call, form: str, tmp_path: Path) -> None:
    """2 x 3 GPUs, each with a d- and an r-cable; what a format leaves out is on stderr."""
    exported = call("topo", "export", "rail-only", "--domains", "2", "--rails", "3", "--format", form)
    assert exported.exit_code == 0
    assert ("note: left out of infragraph: " in exported.stderr) == (form == "infragraph")
    path = tmp_path / "fabric"
    path.write_text(exported.stdout)
    shown = call("topo", "show", f"file:{path}")
    assert "6 GPUs, 5 switches, 24 links" in shown.stdout
    assert ("note: " in shown.stderr) == (form == "infragraph")


def test_a_wrong_file_is_refused_with_its_line(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("fabric: 1\nnodes:\n  gpu: {shape: 4}\nlinks:\n  - rate: 0\n    cables: g0 g1\n")
    refused = call("topo", "show", f"file:{path}")
    assert refused.exit_code == 2 and f"{path}:5:5: links.0.rate: 0 is too small" in refused.stderr


def test_options_reach_the_graph(call: Call) -> None:
    shown = call("topo", "show", "torus", "--shape", "3x5", "--format", "json")
    assert len(json.loads(shown.output)["nodes"]) == 15


def test_a_summary_is_no_graph(call: Call) -> None:
    refused = call("topo", "show", "torus", "--format", "svg", "--json")
    assert refused.exit_code == 2 and "--json is a summary; it goes with table, not svg" in refused.output


def test_metrics_as_text(call: Call) -> None:
    """4x4x8: diameter 2 + 2 + 4, bisection 2 x 16 links, T-O3's two links an OCS."""
    shown = call("topo", "metrics", "torus", "--shape", "4x4x8").output
    assert "diameter 8 hops, mean distance 4.031, sum of distances from a GPU 512" in shown
    assert (
        "bisection 12.8Tb/s per direction over 32 links (64 | 64 GPUs, axis z: 0..3 against the rest)"
        in shown
    )
    assert [line.split() for line in shown.splitlines()[-3:]] == [[axis, "16", "2"] for axis in "XYZ"]


@pytest.mark.parametrize("name", NAMES)
def test_metrics_as_json(call: Call, name: str) -> None:
    document = json.loads(call("topo", "metrics", name, "--json").output)
    assert document["schema"] == {"name": "railweave.topology-metrics", "version": 1}
    assert document["kind"] == name and document["distances"]["unreachable"] == 0
    assert sum(document["kind_links"].values()) == document["links"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["torus", "--shape", "4x0"], "length 0 along y is no ring"),
        (["twisted-torus", "--shape", "4x4x4"], "there is none. It takes k,k,2k or k,2k,2k"),
        (["ring", "--nodes", "1100", "--format", "svg"], "a picture holds 1024 at most"),
        (["moebius"], "there is no topology 'moebius'"),
    ],
)
def test_what_cannot_be_shown_is_refused(call: Call, words: list[str], message: str) -> None:
    refused = call("topo", "show", *words)
    assert refused.exit_code == 2 and message in refused.output
