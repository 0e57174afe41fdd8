"""`--topology file:FABRIC.yaml`: routers, collectives and checks on fabrics from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import RailweaveError
from railweave.framework.fabric_files import text_of
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.model import HealthSnapshot
from railweave.framework.registry import load_plugins
from tests.fakes.sound_tables import check_table

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["dual-plane", "unequal-domains", "fat-tree-k4"]


@pytest.fixture
def renamed_rails(tmp_path: Path) -> str:
    """Rail-only of 3 x 4 under another name, and GPU 1.2 with a slower NIC: nothing of it is built in."""
    path = tmp_path / "rails.yaml"
    text = text_of(rw.topology("rail-only", domains=3, rails=4))[0]
    path.write_text(
        text.replace("name: rail-only", "name: my-rails").replace("g1.2 r2\n", "g1.2 r2 rate=100Gb/s\n")
    )
    return f"file:{path}"


@pytest.mark.parametrize("router", ["shortest", "ecmp"])
@pytest.mark.parametrize("name", NAMES)
def test_plugin_check_of_general_routers(name: str, router: str) -> None:
    report = check_plugin("router", router, load_plugins(), fabrics=[f"file:{EXAMPLES / name}.yaml"])
    assert report.passed, report.text()
    assert len(report.fabrics) == 1 and report.fabrics[0].startswith("file")


@pytest.mark.parametrize("router", ["shortest", "ecmp", "hscore", "spray"])
def test_plugin_check_where_domains_and_rails_are_declared(renamed_rails: str, router: str) -> None:
    unequal = f"file:{EXAMPLES / 'unequal-domains.yaml'}"
    report = check_plugin("router", router, load_plugins(), fabrics=[renamed_rails, unequal])
    assert report.passed, report.text()
    assert len(report.fabrics) == 2


def test_plugin_check_of_the_topology_itself() -> None:
    report = check_plugin(
        "topology", "file", load_plugins(), fabrics=[f"file:{EXAMPLES / 'fat-tree-k4'}.yaml"]
    )
    assert report.passed, report.text()


def test_the_distances_of_a_fat_tree() -> None:
    """k = 4: 2 links to the partner below the edge switch, 4 in the pod, 6 between pods."""
    fabric = rw.topology(f"file:{EXAMPLES / 'fat-tree-k4'}.yaml")
    table = load_plugins()["router"]["shortest"].routes(fabric, HealthSnapshot.healthy(fabric))
    report = check_table(fabric, table, HealthSnapshot.healthy(fabric))
    assert (report.pairs, report.hops, report.longest) == (240, 16 * 2 + 32 * 4 + 192 * 6, 6)
    assert len(report.unreachable) == 0


def test_with_both_planes_down_a_gpu_sends_over_its_nvlink_domain() -> None:
    file = f"file:{EXAMPLES / 'dual-plane'}.yaml"
    faults = ["down link:g0.0->l0.0", "down link:g0.0->l1.0"]
    around = rw.explain("g0.0", "g3.3", topology=file, router="shortest", faults=faults)
    assert [hop.link.split("->")[1][0] for hop in around.paths[0].hops][:2] == ["d", "g"]


@pytest.mark.parametrize("name", NAMES)
def test_ring_and_direct_collectives_run_and_hierarchical_ones_refuse_by_name(name: str) -> None:
    file = f"file:{EXAMPLES / name}.yaml"
    plan = rw.load(topology=file, size="64K", router="ecmp")
    on_domains = name == "dual-plane"  # whose GPUs are at (server, number), with a switch for each server
    assert plan.experiment.collective.name == ("all-reduce" if on_domains else "ring-all-reduce")
    for collective in ("ring-all-gather", "direct-all-to-all", "tree-all-reduce", "send-recv"):
        assert rw.load(
            topology=file, size="64K", collective=collective, router="shortest"
        ).schedule.n_transfers
    for collective in (
        () if on_domains else ("all-reduce", "pipelined-all-reduce", "all-gather", "all-to-all")
    ):
        with pytest.raises(RailweaveError, match=f"collective {collective} does not serve this {name}"):
            rw.load(topology=file, size="64K", collective=collective, router="shortest")


def test_hierarchical_collectives_run_where_domains_and_rails_are_declared(renamed_rails: str) -> None:
    plan = rw.load(topology=renamed_rails, size="64K")
    assert (plan.experiment.router.name, plan.experiment.collective.name) == ("hscore", "all-reduce")
    assert plan.fabric.kind == "my-rails"


def test_loads_metrics_and_pictures(renamed_rails: str) -> None:
    for file in (renamed_rails, *(f"file:{EXAMPLES / name}.yaml" for name in NAMES)):
        loads = rw.loads(topology=file, router="ecmp", pattern="all-to-all")
        assert loads.load.sum() > 0 and np.isfinite(loads.load).all()
        picture = rw.topology(file)._repr_html_()
        assert picture.count('class="link') == loads.fabric.n_links // 2


def test_a_built_in_name_belongs_to_the_built_in_fabric(tmp_path: Path) -> None:
    """Collectives and closed forms go by the name, so another fabric may not have it."""
    text, _ = text_of(rw.topology("ring", nodes=5))
    path = tmp_path / "ring.yaml"
    path.write_text(text)
    assert rw.topology("file", file=str(path)) == rw.topology("ring", nodes=5)
    for changed in (
        text.replace("g0 g1\n", "g0 g1 rate=1Gb/s\n"), text.replace("nodes: 5", "nodes: 6"),
        text.replace("options:", "lossless: true\noptions:"),
        text.replace("wavelengths: 1", "wavelengths: x"),
    ):  # fmt: skip
        assert changed != text
        path.write_text(changed)
        with pytest.raises(RailweaveError, match="ring is the name of a built-in fabric"):
            rw.topology("file", file=str(path))


def test_without_a_file() -> None:
    with pytest.raises(RailweaveError, match=r"needs a file: --topology file:FABRIC\.yaml"):
        rw.topology("file")
