"""InfraGraph: devices become switches and GPUs, and an exported fabric comes back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from railweave.framework.errors import ExperimentError
from railweave.framework.fabric_files import NO_RATES, DefaultRates, FabricFile, load, text_of
from railweave.framework.kit.subject import Sample, examples
from railweave.framework.registry import Registers
from railweave.topologies import plugin

EXAMPLES = Path(__file__).parents[3] / "examples"
SAMPLES = examples(Registers([("topologies", plugin)]))[0]


def link(name: str, gbps: float | None = None, **latency: object) -> dict[str, Any]:
    physical: dict[str, Any] = {"latency": latency} if latency else {}
    if gbps:
        physical["bandwidth"] = {"choice": "gigabits_per_second", "gigabits_per_second": gbps}
    return {"name": name, "physical": physical} if physical else {"name": name}


def inner(one: str, other: str, name: str, scheme: str = "many2many") -> dict[str, Any]:
    return {"ep1": {"component": one}, "ep2": {"component": other}, "link": name, "scheme": scheme}


def part(name: str, count: int, choice: str = "") -> dict[str, Any]:
    return {"name": name, "count": count, "choice": choice or name}


def cluster() -> dict[str, Any]:
    """Two servers of 2 xpus with an NVLink switch; xpu k sends over card k, a device inside the server, to
    leaf k; and a management nic that leads nowhere."""
    card = {
        "name": "card",
        "components": [part("pcie", 1, "port"), part("eth", 1, "port")],
        "links": [link("board")],
        "edges": [inner("pcie", "eth", "board")],
    }
    server = {
        "name": "server",
        "components": [part("xpu", 2), part("nvsw", 1, "switch"), part("card", 2, "device"), part("cpu", 1),
                       {**part("mgmt", 1, "custom"), "custom": {"type": "mgmt"}}],
        "links": [link("nvlink", 3600), link("pcie", 256, choice="ns", ns=500)],
        "edges": [inner("xpu", "nvsw", "nvlink"), inner("xpu[0:2]", "card[0:2].pcie", "pcie", "one2one"),
                  inner("cpu", "mgmt", "pcie")],
    }  # fmt: skip
    leaf = {
        "name": "box",
        "components": [part("asic", 1, "switch"), part("port", 2)],
        "links": [link("ic")],
        "edges": [inner("asic", "port", "ic")],
    }
    edges = [
        {
            "ep1": {"instance": "server", "component": f"card[{k}].eth[0]"},
            "ep2": {"instance": f"leaf[{k}]", "component": "port"},
            "link": "eth",
            "scheme": "one2one",
        }
        for k in range(2)
    ]
    instances = [
        {"name": "server", "device": "server", "count": 2},
        {"name": "leaf", "device": "box", "count": 2},
    ]
    return {
        "name": "two servers", "devices": [card, server, leaf], "instances": instances, "edges": edges,
        "links": [link("eth", 100, choice="us", us=1.5)],
    }  # fmt: skip


def read(tmp_path: Path, document: dict[str, Any] | str, rates: str = "") -> FabricFile:
    path = tmp_path / "f.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return load(path, DefaultRates.read(rates) if rates else NO_RATES)


def test_servers_switches_and_cards_inside_servers(tmp_path: Path) -> None:
    contents = read(tmp_path, cluster())
    fabric = contents.fabric
    assert [(g.kind, g.shape) for g in fabric.groups] == [("gpu", (2, 2)), ("domain", (2,)), ("rail", (2,))]
    names = {fabric.link_name(i) for i in range(0, fabric.n_links, 2)}
    assert names == {
        *(f"g{s}.{k}->d{s}" for s in range(2) for k in range(2)),
        *(f"g{s}.{k}->r{k}" for s in range(2) for k in range(2)),
    }
    eth = fabric.link_kind == fabric.kinds.index("eth")
    assert set(fabric.capacity_bps[eth]) == {1e11}, "the slower of pcie and eth; board says nothing"
    assert np.allclose(fabric.latency_s[eth], 2e-6, rtol=1e-9), "500 ns + 1.5 us"
    assert set(fabric.capacity_bps[~eth]) == {3.6e12}
    assert contents.lost == (
        "in servers such as server.0, what stands between a GPU and its nearest NICs is part of the cable",
        "components have other names: server.0.xpu.0 is g0.0",
    )


def test_a_link_without_bandwidth_takes_the_default_rate_or_is_refused(tmp_path: Path) -> None:
    document = cluster()
    document["devices"][1]["links"][0] = link("nvlink")
    with pytest.raises(ExperimentError, match=r"links without a bandwidth: nvlink.*--default-rate"):
        read(tmp_path, document)
    contents = read(tmp_path, document, "500Gb/s")
    assert 5e11 in contents.fabric.capacity_bps and any(
        "default rate: board 500Gb/s, nvlink 500Gb/s" in lost for lost in contents.lost
    )


@pytest.mark.parametrize(
    "good, bad, why",
    [
        ("device: rail", "device: rial", "there is no device 'rial'"),
        ("count: 4", "count: -4", r":7:5: devices\.0\.components\.0\.count: .* greater than or equal to 1"),
        ("choice: xpu", "choices: xpu", "there is no such key. Did you mean choice"),
    ],
)
def test_what_is_wrong_before_many_edges_is_named(good: str, bad: str, why: str, tmp_path: Path) -> None:
    """7 MiB. How long the largest take: `railweave bench files`."""
    text = text_of(next(s for s in SAMPLES if s.topology == "rail-only").fabric, "infragraph")[0]
    text = text.replace("count: 2", "count: 4")
    assert good in text
    with pytest.raises(ExperimentError, match=why):
        read(tmp_path, text.replace(good, bad, 1) + text[text.rindex("- ep1") :] * 55_000)


def test_large_files_may_have_their_keys_in_any_order(tmp_path: Path) -> None:
    fabric = read(tmp_path, cluster()).fabric
    for keys in (
        ("name", "devices", "links", "instances", "edges"),
        ("edges", "links", "devices", "name", "instances"),
    ):
        document = {key: cluster()[key] for key in keys} | {"description": "x" * (1 << 20)}
        for text in (json.dumps(document, indent=0), yaml.safe_dump(document, sort_keys=False)):
            assert read(tmp_path, text).fabric == fabric


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.fabric.n_gpus < 1024], ids=lambda s: s.name)
def test_an_exported_fabric_comes_back_with_the_same_cables(sample: Sample, tmp_path: Path) -> None:
    fabric, (text, lost) = sample.fabric, text_of(sample.fabric, "infragraph")
    back = read(tmp_path, text).fabric
    assert np.array_equal(back.link_src, fabric.link_src) and np.array_equal(back.link_dst, fabric.link_dst)
    assert np.allclose(back.capacity_bps, fabric.capacity_bps) and np.array_equal(
        back.latency_s, fabric.latency_s
    )
    if "domains" in fabric.capabilities and fabric.groups[0].shape[1] > 1:
        assert back.capabilities == fabric.capabilities and "the coordinates of GPUs" not in lost
    assert ("that links are lossless" in lost) == ("lossless" in fabric.capabilities)


def test_links_of_an_exported_fabric_have_names_of_their_own_that_infragraph_admits(tmp_path: Path) -> None:
    """InfraGraph's names are words of letters, digits, _ and -. Five cables differ in kind, rate or both."""
    kinds = [("a/b", "1Gb/s"), ("a-b", "1Gb/s"), ("a-b", "2Gb/s"), ("torus+", "1Gb/s"), ("é", "1Gb/s")]
    edges = "".join(
        f'<edge source="g{i % 2}" target="s"><data key="kind">{kind}</data>'
        f'<data key="rate">{rate}</data></edge>'
        for i, (kind, rate) in enumerate(kinds)
    )
    nodes = "".join(f'<node id="g{i}"><data key="kind">gpu</data></node>' for i in (0, 1))
    (tmp_path / "f.graphml").write_text(
        f'<graphml><graph edgedefault="undirected">{nodes}<node id="s"/>{edges}</graph></graphml>',
        encoding="utf-8",
    )
    fabric = load(tmp_path / "f.graphml").fabric
    text = text_of(fabric, "infragraph")[0]
    names = [link["name"] for link in yaml.safe_load(text)["links"]]
    assert len(set(names)) == len(kinds) and all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in names)
    back = read(tmp_path, text).fabric
    assert sorted(back.capacity_bps) == sorted(fabric.capacity_bps) == [1e9] * 8 + [2e9] * 2


@pytest.mark.parametrize("name", ["dual-plane", "unequal-domains", "fat-tree-k4"])
def test_the_examples_come_back(name: str, tmp_path: Path) -> None:
    fabric = load(EXAMPLES / f"{name}.yaml").fabric
    back = read(tmp_path, text_of(fabric, "infragraph")[0]).fabric
    assert sorted(zip(back.link_src, back.link_dst, back.capacity_bps, strict=True)) == sorted(
        zip(fabric.link_src, fabric.link_dst, fabric.capacity_bps, strict=True)
    )


def changed(*path: str | int, to: object) -> dict[str, Any]:
    """The cluster with one value replaced; None removes it."""
    document: Any = cluster()
    *inner_path, last = path
    at = document
    for step in inner_path:
        at = at[step]
    if to is None:
        del at[last]
    else:
        at[last] = to
    return document  # type: ignore[no-any-return]


PLACE = r":\d+:\d+: "
BANDWIDTH = ("links", 0, "physical", "bandwidth")
FIRST = ("devices", 1, "components", 0)


def test_100_000_links_load(tmp_path: Path) -> None:
    document = cluster()
    edge = document["edges"][0]
    document["instances"][0]["count"] = document["devices"][2]["components"][1]["count"] = 12500
    document["edges"] = [
        {**edge, "ep1": {"instance": f"server[{s}]", "component": f"card[{k}].eth[0]"},
         "ep2": {"instance": f"leaf[{k}]", "component": f"port[{s}]"}}
        for s in range(12500) for k in range(2)
    ]  # fmt: skip
    path = tmp_path / "f.yaml"
    path.write_text(json.dumps(document))
    assert load(path).fabric.n_links == 100_000


def test_instances_and_components_of_one_name_are_kinds_of_their_own(tmp_path: Path) -> None:
    """The cpu of a server joins its xpus, of which one has a NIC, and the leaves are called CPU."""
    document = cluster()
    document["devices"][1]["edges"].append(inner("cpu", "xpu", "pcie"))
    document["instances"][1]["name"] = "CPU"
    del document["edges"][1]
    for number, edge in enumerate(document["edges"]):
        edge["ep2"]["instance"] = f"CPU[{number}]"
    fabric = read(tmp_path, document).fabric
    assert [(g.kind, g.shape) for g in fabric.groups[2:]] == [("cpu", (1,)), ("cpu-2", (2, 1))]


NEWER = "This release reads InfraGraph up to 3.1: if the file is of a newer schema"


@pytest.mark.parametrize(
    "document, why",
    [
        (changed("planes", to=[]), f"there is no key 'planes'.*{NEWER}"),
        (changed(*FIRST, "power", to=7), f"{PLACE}devices.1.components.0.power: .*{NEWER}"),
        (changed(*FIRST, "choice", to="dpu"), f"{PLACE}.*got 'dpu'.*{NEWER}"),
        (changed(*BANDWIDTH, "choice", to="terabits"), NEWER),
        (changed(*BANDWIDTH, "gigabits_per_second", to=0), "0 is not positive"),
        (changed(*BANDWIDTH, "gigabits_per_second", to=None), "there is no such value"),
        (changed("instances", 0, "device", to="servr"), f"{PLACE}instances.0.device: .*Did you mean server"),
        (changed("instances", 1, "name", to="server"), f"{PLACE}instances.1.name: 'server' is there twice"),
        (changed("instances", 0, "count", to=0), "instances.0.count: .*greater than or equal to 1"),
        (changed("instances", 0, "count", to=1 << 20), "more than 2097152 components"),
        (changed("edges", 0, "link", to="ether"), f"{PLACE}edges.0.link: there is no link 'ether'"),
        (changed("edges", 0, "scheme", to="ring"), "ring is not expanded here"),
        (changed("edges", 0, "ep1", "instance", to="host[0]"), "ep1.instance: there is no instance 'host'"),
        (changed("edges", 0, "ep2", "instance", to="leaf[7]"), r"'leaf\[7\]' is none of the 2 there are"),
        (changed("edges", 0, "ep2", "component", to="prt"), "there is no component 'prt'.*Did you mean port"),
        (changed("edges", 0, "ep2", "component", to="port[a]"), r"there is no component 'port\[a\]'"),
        (changed(*FIRST, "choice", to="cpu"), "not two components of type xpu"),
        (changed("devices", 0, "components", 0, to=part("card", 1, "device")), "more than 8 times"),
        (changed(*FIRST, "count", to=1 << 20), "more than 2097152 components"),
        (changed("devices", to=None), "instances.0.device: there is no device 'server'"),
        (changed("devices", 0, "components", to=None), rf"{PLACE}devices.0.components: is missing"),
        ("name: x\ndevices: 7\n", "devices: .*got 7"),
        ("name: [\n", ":2:1: not readable as YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, document: dict[str, Any] | str, why: str
) -> None:
    with pytest.raises(ExperimentError, match=why):
        read(tmp_path, document)


def dgx(switches: int, nics_per_gpu: int = 1) -> dict[str, Any]:
    """Two servers as InfraGraph's blueprints of NVIDIA's DGX draw them: 4 xpus, parallel NVSwitches that a
    PCIe switch manages, two xpus and their NICs at each of two other PCIe switches, CPUs above; NIC k leads
    to leaf k // nics_per_gpu."""
    n = 4 * nics_per_gpu
    server = {
        "name": "dgx",
        "components": [part("cpu", 2), part("xpu", 4), part("nvsw", switches, "switch"),
                       part("pciesw", 3, "switch"), part("cx", n, "nic")],
        "links": [{**link("xpu_fabric"), "description": "nvlink_3"}, link("pcie"), link("cpu_fabric")],
        "edges": [inner("cpu", "cpu", "cpu_fabric"), inner("xpu", "nvsw", "xpu_fabric"),
                  inner("nvsw", "pciesw[2]", "pcie"), inner("pciesw[2]", "pciesw[1]", "pcie"),
                  inner("cpu[0:2]", "pciesw[0:2]", "pcie", "one2one"),
                  *(inner(f"xpu[{2 * i}:{2 * i + 2}]", f"pciesw[{i}]", "pcie") for i in range(2)),
                  *(inner(f"cx[{n // 2 * i}:{n // 2 * (i + 1)}]", f"pciesw[{i}]", "pcie") for i in range(2))],
    }  # fmt: skip
    document = cluster()
    document["devices"] = [
        server,
        {**document["devices"][2], "components": [part("port", 2 * n)], "edges": []},
    ]
    document["instances"] = [
        {"name": "dgx", "device": "dgx", "count": 2}, {"name": "leaf", "device": "box", "count": 4}
    ]  # fmt: skip
    document["edges"] = [
        {
            "ep1": {"instance": f"dgx[{s}]", "component": f"cx[{k}]"},
            "ep2": {"instance": f"leaf[{k // nics_per_gpu}]", "component": f"port[{s * n + k}]"},
            "link": "eth",
        }
        for s in range(2)
        for k in range(n)
    ]
    return document


@pytest.mark.parametrize(("switches", "nics", "kinds"), [(6, 1, "nvlink"), (4, 2, "xpu_fabric")])
def test_parallel_switches_are_a_domain_and_nics_part_of_cables(
    tmp_path: Path, switches: int, nics: int, kinds: str
) -> None:
    """A100 (6 NVSwitches, NVLink 3) and H100 (4): a GPU has to its domain what its links to all switches
    have, and what its bonded NICs have together to its rail, up to PCIe's 64 GB/s."""
    contents = read(tmp_path, dgx(switches, nics), f"{kinds}=50GB/s, pcie=64GB/s, 10Gb/s")
    fabric = contents.fabric
    assert [(g.kind, g.shape) for g in fabric.groups] == [("gpu", (2, 4)), ("domain", (2,)), ("rail", (4,))]
    names = {fabric.link_name(i) for i in range(0, fabric.n_links, 2)}
    assert names == {f"g{s}.{k}->{end}" for s in range(2) for k in range(4) for end in (f"d{s}", f"r{k}")}
    in_domain = fabric.link_kind == fabric.kinds.index("xpu_fabric")
    assert set(fabric.capacity_bps[in_domain]) == {switches * 50 * 8e9}
    assert set(fabric.capacity_bps[~in_domain]) == {nics * 100e9}
    assert {"isolated-rails", "interfaces", "lattice"} <= fabric.capabilities, "what hscore and ptdp require"
    assert f"{switches} parallel switches are one domain switch" in contents.lost[0]


def test_a_link_among_bonded_nics_limits_them(tmp_path: Path) -> None:
    """Two NICs of 100 Gb/s behind the PCIe link of their GPU, of 120 Gb/s."""
    fabric = read(tmp_path, dgx(4, 2), "pcie=120Gb/s,400Gb/s").fabric
    assert set(fabric.capacity_bps[fabric.link_kind == fabric.kinds.index("eth")]) == {120e9}


def test_gpus_that_are_all_joined_are_a_domain(tmp_path: Path) -> None:
    """As AMD's MI300X: xGMI between all; 3 links of 64 GB/s each for 4 GPUs."""
    document = dgx(1)
    server = document["devices"][0]
    del server["components"][2]
    server["edges"] = [
        e for e in server["edges"] if "nvsw" not in e["ep1"]["component"] + e["ep2"]["component"]
    ]
    server["edges"].append(inner("xpu", "xpu", "xpu_fabric"))
    contents = read(tmp_path, document, "64GB/s")
    fabric = contents.fabric
    assert [(g.kind, g.shape) for g in fabric.groups] == [("gpu", (2, 4)), ("domain", (2,)), ("rail", (4,))]
    assert 3 * 64 * 8e9 in fabric.capacity_bps
    assert "the links among all GPUs are one domain switch" in contents.lost[0]


def test_a_pcie_switch_that_joins_all_gpus_is_no_domain(tmp_path: Path) -> None:
    """It leads to the NICs, too."""
    document = dgx(1)
    server = document["devices"][0]
    server["components"][2:4] = [part("pciesw", 1, "switch")]
    server["edges"] = [
        inner("xpu", "pciesw", "pcie"),
        inner("cx", "pciesw", "pcie"),
        inner("cpu", "pciesw", "pcie"),
    ]
    fabric = read(tmp_path, document, "64GB/s").fabric
    assert [g.kind for g in fabric.groups] == ["gpu", "leaf", "pciesw"]


@pytest.mark.parametrize(
    ("rates", "says"),
    [
        (
            "nvlnk=50GB/s",
            "nvlnk=400Gb/s is for no link: those without a bandwidth are cpu_fabric, xpu_fabric (nv",
        ),
        (
            "nvlink=fast",
            "'nvlink=fast' is not a rate such as 400Gb/s, or one for each kind of link: nvlink=450GB/s",
        ),
        ("pcie=1GB/s,pcie=2GB/s", "has two rates for pcie"),
        (
            "nvlink=50GB/s",
            "links without a bandwidth: cpu_fabric, pcie. Give them physical.bandwidth in the file",
        ),
    ],
)
def test_default_rates_that_do_not_fit_are_refused(tmp_path: Path, rates: str, says: str) -> None:
    with pytest.raises(ExperimentError, match=re.escape(says)):
        document = dgx(1)
        del document["devices"][0]["edges"][-1]  # so that a PCIe link stays in the fabric
        del document["edges"][2:4], document["edges"][-2:]
        read(tmp_path, document, rates)
