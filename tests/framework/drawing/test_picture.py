"""Pictures: well-formed, every GPU and cable in them, and laid out by coordinates."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from railweave.framework.drawing import svg
from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.topologies.fat_tree import FatTree
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from tests.fakes.small_fabrics import unequal
from tests.fakes.tori import torus, twisted

SVG = "{http://www.w3.org/2000/svg}"


def parse(fabric: Fabric) -> ElementTree.Element:
    text = svg(fabric)
    assert text == svg(fabric)
    return ElementTree.fromstring(text)


def titles(picture: ElementTree.Element) -> list[str]:
    return [str(t.text) for shape in picture for t in shape.iter(f"{SVG}title")]


def gpus(picture: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """The middle of every GPU."""
    found = {}
    for shape in picture:
        title = shape.find(f"{SVG}title")
        if title is None or not str(title.text).startswith("GPU "):
            continue
        if shape.tag == f"{SVG}rect":
            x, y, w, h = (float(shape.attrib[k]) for k in ("x", "y", "width", "height"))
            found[str(title.text)[4:]] = (x + w / 2, y + h / 2)
        else:
            found[str(title.text)[4:]] = (float(shape.attrib["cx"]), float(shape.attrib["cy"]))
    return found


def words(picture: ElementTree.Element) -> list[str]:
    return [str(t.text) for t in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "fabric",
    [
        RailOnly().build({"domains": 3, "rails": 5}),
        RailOptimised().build({"domains": 2, "rails": 4, "spines": 3}),
        Ring().build({"nodes": 9, "wavelengths": 2}),
        Ring().build({"nodes": 2}),
        torus(7),
        torus(5, 4),
        torus(4, 4, 4),
        twisted(4, 4, 8),
        torus(2, 3, 2),
        FatTree().build({"k": 4}),
    ],
)
def test_every_gpu_is_drawn_apart_from_the_others_and_inside_the_picture(fabric: Fabric) -> None:
    picture = parse(fabric)
    places = gpus(picture)
    assert set(places) == {fabric.node_name(gpu) for gpu in range(fabric.n_gpus)}
    left, top, width, height = map(float, picture.attrib["viewBox"].split())
    for x, y in places.values():
        assert left < x < left + width and top < y < top + height
    assert min(abs(a - c) + abs(b - d) for (a, b), (c, d) in combinations(places.values(), 2)) > 6


def test_rails_are_rows_and_domains_are_columns() -> None:
    fabric = RailOnly().build({"domains": 3, "rails": 4})
    places = gpus(parse(fabric))
    for d in range(3):
        assert len({places[f"g{d}.{g}"][0] for g in range(4)}) == 1
    for g in range(4):
        assert len({places[f"g{d}.{g}"][1] for d in range(3)}) == 1
    assert places["g0.0"][0] < places["g1.0"][0] and places["g0.0"][1] < places["g0.1"][1]
    assert {"r0", "r3", "d0", "d2"} <= set(words(parse(fabric)))


def test_rail_optimised_has_a_line_per_trunk() -> None:
    picture = parse(RailOptimised().build({"domains": 2, "rails": 4, "spines": 3}))
    trunks = [t for t in titles(picture) if t.startswith("trunk")]
    assert sorted(trunks) == sorted(f"trunk r{r} - s{s}" for r in range(4) for s in range(3))
    assert any("trunks between rail and spine switches, 266.7Gb/s each" in w for w in words(picture))


def test_rings_have_a_line_per_cable_and_go_round() -> None:
    fabric = Ring().build({"nodes": 8, "wavelengths": 3})
    picture = parse(fabric)
    assert sorted(t for t in titles(picture) if "->" in t) == sorted(
        fabric.link_name(2 * c) for c in range(24)
    )
    places = gpus(picture)
    assert places["g0"] == pytest.approx((0, -110)) and places["g2"] == pytest.approx((110, 0))
    assert "wavelength 2, both ways, 40Gb/s each" in words(picture)
    assert "cable between neighbours, one way, 40Gb/s each" in words(parse(Ring().build({"directions": 1})))


@pytest.mark.parametrize("fabric", [torus(5, 4), torus(4, 4, 4), torus(3, 2, 3)])
def test_tori_have_every_cable_and_their_axes(fabric: Fabric) -> None:
    picture = parse(fabric)
    drawn = {t.split(",")[0] for t in titles(picture) if "->" in t}
    assert drawn == {fabric.link_name(link) for link in range(0, fabric.n_links, 2)}
    axes = "xyz"[: len(fabric.groups[0].shape)]
    assert set(axes) <= set(words(picture))
    steps = {}
    places = gpus(picture)
    for link in range(0, fabric.n_links, 2):
        a, b = int(fabric.link_src[link]), int(fabric.link_dst[link])
        axis = int(fabric.link_kind[link]) // 2
        if fabric.coordinates(b)[axis] > fabric.coordinates(a)[axis]:
            (x, y), (u, v) = places[fabric.node_name(a)], places[fabric.node_name(b)]
            steps.setdefault(axis, set()).add((round(u - x, 0), round(v - y, 0)))
    assert all(len({round(dx / 2) for dx, _ in found}) == 1 for found in steps.values())


def test_optical_links_and_twists_are_named() -> None:
    picture = parse(twisted(4, 4, 8))
    assert "g3.0.0->g0.0.4, OCS X:0,0" in titles(picture)
    assert "twist: crossing the wrap of x upwards adds 4 to z" in words(picture)
    assert "twist: crossing the wrap of x upwards adds 4 to y and 4 to z" in words(parse(twisted(4, 8, 8)))
    assert not any("twist" in w for w in words(parse(torus(4, 4, 8))))


def test_large_rail_fabrics_leave_out_the_middle_and_say_so() -> None:
    picture = parse(RailOnly().build({"domains": 64, "rails": 32}))
    assert "drawn: 13 of 64 domains and 13 of 32 rails" in words(picture)
    assert {"d0", "d11", "d63", "r31"} <= set(words(picture)) and "d12" not in words(picture)


def test_what_no_picture_can_hold_is_refused() -> None:
    with pytest.raises(
        FabricError, match=r"ring of 1025 GPUs: a picture holds 1024 at most\. Use `--format graphml`"
    ):
        svg(Ring().build({"nodes": 1025}))
    with pytest.raises(FabricError, match="torus of 4624 GPUs: a picture holds 4096 at most"):
        svg(torus(17, 16, 17))


def dual_plane(domains: int = 4, rails: int = 4) -> Fabric:
    """A stranger's fabric: two planes of rails, so 8 rail switches for domains of 4 GPUs."""
    n = domains * rails
    groups = [
        NodeGroup("gpu", 0, (domains, rails), "g"),
        NodeGroup("domain", n, (domains,), "d"),
        NodeGroup("rail", n + domains, (2 * rails,), "r"),
    ]
    builder = FabricBuilder("dual-plane", groups, {})
    gpus = np.arange(n)
    builder.cables(gpus, n + gpus // rails, "d", 8e9)
    for plane in (0, 1):
        builder.cables(gpus, n + domains + plane * rails + gpus % rails, "r", 1e9)
    return builder.build()


def renamed_rails() -> Fabric:
    return replace(RailOnly().build({"domains": 3, "rails": 4}), kind="our-own")


@pytest.mark.parametrize(
    "fabric",
    [
        dual_plane(),
        dual_plane(8, 8),
        renamed_rails(),
        unequal(4, 2, 1),
        RailOnly().build({"domains": 2, "rails": 3}),
        RailOptimised().build({"domains": 2, "rails": 4, "spines": 3}),
        torus(4, 4),
        torus(3, 2, 3),
        torus(7),
        Ring().build({"nodes": 5, "wavelengths": 3}),
    ],
)
def test_every_node_and_every_cable_is_drawn(fabric: Fabric) -> None:
    """A cable is one element: its id is its first link, its class the kind."""
    picture = parse(fabric)
    named = titles(picture)
    for node in range(fabric.n_nodes):
        assert any(re.search(rf"(^|[ -]){re.escape(fabric.node_name(node))}$", title) for title in named)
    shapes = {shape.attrib["id"]: shape.attrib["class"] for shape in picture if "id" in shape.attrib}
    cables = {
        f"link{link}": f"link {fabric.kinds[fabric.link_kind[link]]}" for link in range(0, fabric.n_links, 2)
    }
    assert shapes == cables | {f"node{n}": f"node {fabric.node_kind(n)}" for n in range(fabric.n_nodes)}


def test_a_fabric_of_another_name_is_laid_out_as_what_it_is() -> None:
    own = gpus(parse(renamed_rails()))
    assert own == gpus(parse(RailOnly().build({"domains": 3, "rails": 4})))
    assert len({y for _, y in gpus(parse(dual_plane())).values()}) == 1  # tiers
    grid, some = gpus(parse(unequal(3, 3))), gpus(parse(unequal(3, 1)))
    assert some == {name: grid[name] for name in some}


def test_any_other_fabric_is_drawn_in_tiers() -> None:
    groups = [
        NodeGroup("gpu", 0, (4,), "g"),
        NodeGroup("leaf", 4, (2,), "l<"),
        NodeGroup("top", 6, (1,), "t"),
    ]
    builder = FabricBuilder("tree", groups, {})
    builder.cables([0, 1, 2, 3], [4, 4, 5, 5], "access", 1e9)
    builder.cables([4, 5, 0], [6, 6, 1], "trunk", 2e9)
    fabric = builder.build()
    picture = parse(fabric)
    assert {"access, 1Gb/s per direction", "trunk, 2Gb/s per direction", "l<0"} <= set(words(picture))
    heights = {}
    for shape in picture.iter(f"{SVG}rect"):
        title = shape.find(f"{SVG}title")
        if title is not None:
            heights.setdefault(re.split(r"\d", str(title.text))[0], set()).add(shape.attrib["y"])
    assert [len(v) for v in heights.values()] == [1, 1, 1]
    crossing = FabricBuilder("chords", [NodeGroup("gpu", 0, (5,), "g")], {})
    crossing.cables([0, 0], [1, 2], "chord", 1e9)
    assert "chord, 1Gb/s per direction" in words(parse(crossing.build()))


@pytest.mark.parametrize(
    "fabric",
    [RailOnly().build({"domains": d, "rails": r}) for d, r in ((20, 16), (70, 64))],
    ids=["320", "4480"],
)
def test_a_large_rail_fabric_is_drawn_whole_where_that_is_wanted(fabric: Fabric) -> None:
    """A line for each rail and domain; up to 1,024 GPUs every GPU and cable, too."""
    picture = ElementTree.fromstring(svg(fabric, whole=True))
    ids = {shape.attrib["id"] for shape in picture if "id" in shape.attrib}
    switches = {f"node{n}" for n in range(fabric.n_gpus, fabric.n_nodes)}
    gpus = {f"node{n}" for n in range(fabric.n_gpus)} | {f"link{n}" for n in range(0, fabric.n_links, 2)}
    assert ids == (switches | gpus if fabric.n_gpus <= 1024 else switches)


def test_long_tiers_are_drawn_whole_where_that_is_wanted() -> None:
    fabric = FatTree().build({"k": 8})
    picture = ElementTree.fromstring(svg(fabric, whole=True))
    ids = [shape.attrib["id"] for shape in picture if "id" in shape.attrib]
    assert len(ids) == len(set(ids)) == fabric.n_nodes + fabric.n_links // 2
