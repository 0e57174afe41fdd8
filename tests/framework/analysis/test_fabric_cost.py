"""Parts counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.framework.analysis.fabric_cost import cost, read_prices
from railweave.framework.cli import main
from railweave.framework.errors import ExperimentError, FabricError

EXAMPLE = Path(__file__).parents[3] / "examples" / "prices.yaml"


def railweave(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], prog_name="railweave")


def test_a_rail_only_fabric_has_a_cable_of_each_kind_for_every_gpu() -> None:
    """3 domains of 4 GPUs: 12 cables to domains and 12 to rails, 48 ends. Of the example's prices only rail
    ports and rail cables cost: 12 x (900 + 1400) and 12 x (15 + 24) W; two optics a rail cable."""
    total = cost(rw.topology("rail-only", domains=3, rails=4), read_prices(EXAMPLE))
    assert (total.gpus, total.ports, total.cables, total.optics) == (12, 48, 24, 24)
    assert (total.price, total.power_w) == (12 * 2300, 12 * 39)
    assert total.price_per_gpu == 2300


def test_a_fat_tree_of_ports_alone(tmp_path: Path) -> None:
    """Al-Fares et al.: k^3/4 hosts and 5 k^2/4 switches of k ports, all in use; with k = 4 that is 16 hosts,
    20 switches, 80 + 16 ports and 48 cables."""
    fabric = rw.topology("fat-tree", k=4)
    kinds = {fabric.node_kind(node) for node in range(fabric.n_nodes)}
    prices = tmp_path / "prices.yaml"
    lines = [f"  {kind}: {{price: {0 if kind == 'gpu' else 10}, power_w: 1.5}}" for kind in kinds]
    cables = [f"  {kind}: {{price: 1, optics: 2}}" for kind in fabric.kinds]
    prices.write_text("\n".join(["currency: EUR", "ports:", *lines, "cables:", *cables]))
    total = cost(fabric, read_prices(prices))
    assert (total.ports, total.cables, total.optics) == (96, 48, 96)
    assert (total.price, total.power_w) == (80 * 10 + 48, 96 * 1.5)


def test_parts_without_a_price_are_named(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "currency: USD\nports: {gpu: {price: 0}, domain: {price: 0}}\ncables: {d: {price: 0}}\n"
    )
    fabric = rw.topology("rail-only", domains=2, rails=2)
    with pytest.raises(
        FabricError, match=r"has no price of ports\.rail, cables\.r, which this rail-only has"
    ):
        cost(fabric, read_prices(prices))
    done = railweave("topo", "cost", "--prices", prices)
    assert done.exit_code == 2 and "Add `ports: {rail: {price: NUMBER}}`" in done.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ports: {gpu: {price: 0}}", "currency: expects a word"),
        ("currency: USD\nports: {gpu: {price: -1}}", ":2:15: ports.gpu.price: expects a number, 0 or more"),
        ("currency: USD\nports: {gpu: {power_w: 1}}", "ports.gpu: expects {price: NUMBER}"),
        ("currency: USD\nports: {gpu: 5}", "ports.gpu: expects {price: NUMBER}"),
        ("currency: USD\nports: 5", "ports: expects kinds"),
        ("currency: USD\ncables: {r: {price: 1, optics: 1.5}}", "optics: expects a whole number"),
        ("currency: USD\ncables: {r: {price: 1e99}}", "price: expects a number"),
        ("currency: USD\ncables: {r: {price: 1, colour: 2}}", "colour: there is no such figure"),
        ("currency: USD\nracks: {r: {price: 1}}", "racks: there is no such section"),
    ],
)
def test_a_wrong_price_file_is_refused_with_its_place(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ExperimentError) as refused:
        read_prices(path)
    assert why in str(refused.value)


def test_the_command_prints_the_same_as_json_and_as_the_manual_shows() -> None:
    shown = json.loads(railweave("topo", "cost", "--prices", EXAMPLE, "--json").stdout)
    assert shown["schema"] == {"name": "railweave.topology-cost", "version": 1}
    assert (shown["price"], shown["price_per_gpu"]) == (36800, 2300)
    manual = (EXAMPLE.parents[1] / "docs" / "fabrics.md").read_text()
    table = railweave("topo", "cost", "--prices", EXAMPLE).stdout
    assert all(line.strip() in manual for line in table.splitlines())
