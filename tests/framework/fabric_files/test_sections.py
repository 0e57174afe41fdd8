"""railweave's own format: what is written reads back equal, and what is wrong is named with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.fabric_files import load, text_of
from railweave.framework.fabric_files.cables import CableKind, Cables
from railweave.framework.kit.subject import Sample, examples
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.registry import Registers
from railweave.topologies import plugin

EXAMPLES = Path(__file__).parents[3] / "examples"
SAMPLES = examples(Registers([("topologies", plugin)]))[0]
NODES = "fabric: 1\nnodes:\n"
HEAD = NODES + "  gpu: {shape: 4x2}\n  leaf: {shape: 2}\nlinks:\n  - rate: 400Gb/s\n    cables: |\n"
Load = Callable[[str], Fabric]


@pytest.fixture
def read(tmp_path: Path) -> Load:
    def read_text(text: str) -> Fabric:
        path = tmp_path / "f.yaml"
        path.write_text(text)
        return load(path).fabric

    return read_text


@pytest.mark.parametrize("form", ["railweave", "graphml"])
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.fabric.n_gpus < 1024], ids=lambda s: s.name)
def test_every_built_in_fabric_reads_back_equal(sample: Sample, form: str, tmp_path: Path) -> None:
    text, lost = text_of(sample.fabric, form)
    (tmp_path / "f").write_text(text)
    assert load(tmp_path / "f").fabric == sample.fabric and not lost


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Any groups, unequal ones too, any cables, every attribute different in the two directions."""
    axes = draw(st.integers(1, 3))
    places = draw(st.lists(st.tuples(*[st.integers(0, 3)] * axes), min_size=2, max_size=9, unique=True))
    groups = [NodeGroup.at("gpu", 0, places, "g")]
    switches = draw(st.lists(st.integers(1, 4), max_size=3))
    for kind, size in zip(("domain", "leaf", "top-of_rack"), switches, strict=False):
        first = groups[-1].first + groups[-1].size
        groups.append(NodeGroup(kind, first, (size, 1), kind + "-"))
    n, n_gpus = groups[-1].first + groups[-1].size, groups[0].size
    names = {g.name(i): i for g in groups[1:] for i in range(g.first, g.first + g.size)}
    two = lambda values: st.tuples(values, values)
    variant = st.builds(
        CableKind,
        two(st.sampled_from(["x+", "no", "1e3", "012", "eth"])),
        two(st.floats(1, 1e13)),
        two(st.floats(0, 1)),
        two(st.sampled_from(["auto", "none", "from", "to", *names])),
        two(st.integers(-1, 5)),
        two(st.sampled_from(["", "X:0,0", "true"])),
        two(st.booleans()),
        st.one_of(st.none(), two(st.booleans())),
    )
    cables = Cables(variants=draw(st.lists(variant, min_size=1, max_size=3)))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    chain = [(i, i + 1) for i in range(n_gpus - 1)]
    for a, b in [*chain, *draw(st.lists(ends, max_size=12)) * draw(st.integers(1, 2))]:
        cables.a.append(a)
        cables.b.append(b)
        cables.which.append(draw(st.integers(0, len(cables.variants) - 1)))
    option = st.one_of(st.text("ab0.e:-# ", max_size=4), st.integers(), st.floats(0, 1e300), st.booleans())
    return cables.fabric(
        draw(st.sampled_from(["mine", "null", "7"])), groups, names,
        params=draw(st.dictionaries(st.sampled_from(["a", "b"]), option)),
        traits=draw(st.sampled_from([(), ("lossless",), ("a", "lossless")])),
        axis_names=draw(st.sampled_from([(), ("x", "y", "no")[:axes]])),
    )  # fmt: skip


@settings(max_examples=60)
@given(fabric=fabrics())
def test_any_fabric_reads_back_equal(fabric: Fabric, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "f.yaml"
    path.write_text(text_of(fabric)[0])
    assert load(path).fabric == fabric


def test_patterns_counts_and_attributes_of_one_line(read: Load) -> None:
    fabric = read(
        HEAD + "      g0-1.* l0 x2 # four GPUs, two cables each\n\n      g2-3.* l1 rate=1Gb/s latency=2us\n"
    )
    assert (fabric.n_gpus, fabric.n_links) == (8, 2 * (4 * 2 + 4))
    assert fabric.link_name(0) == "g0.0->l0#0" and fabric.link_name(2) == "g0.0->l0#1"
    assert set(fabric.capacity_bps[:16]) == {4e11} and set(fabric.capacity_bps[16:]) == {1e9}
    assert set(fabric.latency_s[16:]) == {2e-6}
    assert (fabric.link_element[:16] == 8).all() and (fabric.link_element[16:] == 9).all()


def test_100_000_links_load(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(
        HEAD.replace("4x2", "250x200").replace("shape: 2}", "shape: 250}")
        + "".join(f"      g{d}.{k} l{d}\n" for d in range(250) for k in range(200))
    )
    assert load(path).fabric.n_links == 100_000


MIB = 1 << 20


def test_a_large_file_that_ends_wrong_is_refused_with_its_line(tmp_path: Path) -> None:
    """20 MiB. How long the largest take: `railweave bench files`."""
    path, many = tmp_path / "f.yaml", HEAD.replace("4x2", "1000x64").replace("shape: 2}", "shape: 1000}")
    lines = "".join(f"      g{d}.{k} l{d}\n" for d in range(1000) for k in range(64))
    path.write_text(many + lines * 17 + "      g0.0 nowhere\n")
    with pytest.raises(ExperimentError, match=r":1088008:5: .* there is no node 'nowhere'"):
        load(path)


@pytest.mark.parametrize(
    "text, why",
    [
        ("fabric: 1\n" + "#" * 64 * MIB, "64 MiB; a fabric file has 36 MiB at most"),
        ("fabric: 2\nlinks:\n" + "- a\n" * 2 * MIB, ":1:9: fabric: 2 is not a version"),
        ("fabric: 1\nnodes: {}\n---\n" + "- a\n" * 2 * MIB, ":3:1: a second document begins here"),
        ("fabric: 1\nlinks:\n" + "- a\n" * 2 * MIB, "too many lists and keys"),
        ("kind: Pod\nitems:\n" + "- a\n" * 2 * MIB, ":1:1: begins with 'kind'"),
        ("\t{[" * 2 * MIB, ":1:1: not readable as YAML"),
        ("<a>" * 2 * MIB, ":1: <a> is not GraphML"),
    ],
)
def test_what_is_wrong_first_in_a_large_file_is_refused_without_the_rest(
    tmp_path: Path, text: str, why: str
) -> None:
    """All of it is neither YAML nor XML, which who reads to its end finds first."""
    path = tmp_path / "f.yaml"
    path.write_text(f"{text}\x00")
    with pytest.raises(ExperimentError, match=why):
        load(path)


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "empty"),
        ("\x00", "not readable as YAML"),
        ("- a\n", "1:1: a fabric file is a list of `key: value` lines"),
        ("name: x\nnodes: {}\n", "2:1: there is no key 'nodes'.* begin it with `fabric: 1`"),
        ("fabric: 1\nnods: {}\n", "2:1: there is no key 'nods'"),
        ("fabric: 1\nnodes: {gpu: {shape: 2}}\n", "links: is missing"),
        (NODES + "  leaf: {shape: 2}\nlinks: []\n", "3:3: nodes.leaf: the first kind .* must be gpu"),
        (NODES + "  gpu: {shape: 1}\nlinks: []\n", "3:3: nodes.gpu: a fabric has 2 GPUs or more"),
        (NODES + "  gpu: {shape: 0}\nlinks: []\n", "3:3: nodes.gpu: shape '0' is no list"),
        (NODES + "  gpu: {shape: 9999x9999}\nlinks: []\n", "1048576 nodes at most"),
        (NODES + "  gpu: {at: '0.0-9999999'}\nlinks: []\n", "more than 1048576 nodes"),
        (NODES + "  gpu: {at: '0.0 1'}\nlinks: []\n", "as many coordinates"),
        (NODES + "  gpu: {at: '0 0'}\nlinks: []\n", "two nodes have the same coordinates"),
        (NODES + "  gpu: {at: 0.0}\nlinks: []\n", "3:9: nodes.gpu.at: expects text; put it in quotes"),
        (NODES + "  gpu: {}\nlinks: []\n", "give its shape"),
        (NODES + "  gpu: {shap: 2}\nlinks: []\n", "3:9: nodes.gpu.shap: .*Did you mean shape"),
        (NODES + "  gpu: {shape: 2}\n  gpu: {shape: 2}\nlinks: []\n", "4:3: nodes.gpu: is given twice"),
        (NODES + "  gpu: {shape: 2}\n  gum: {shape: 1}\nlinks: []\n", "2:1: nodes: .*of other nodes"),
        (NODES + "  gpu: {shape: 2}\n  hub: {shape: 1}\nlinks: []\n", "prefix h is that of the hosts"),
        (NODES + "  gpu: {shape: 2}\n  link: {shape: 1}\nlinks: []\n", "no kind of nodes"),
        (NODES + "  gpu: {shape: 2, prefix: g1}\nlinks: []\n", "no prefix of names"),
        (NODES + "  gpu: {shape: 2}\nlinks: []\n", "no cable joins anything"),
        ("fabric: 1\naxes: [a]\n" + HEAD[10:] + "      g*.* l0\n", "axes: 1 names for 2 coordinates"),
        ("fabric: 1\nnodes: 7\nlinks: {}\n", "2:1: nodes: expects a mapping"),
        (NODES + "  gpu: {at: '0.0 999999.999999'}\nlinks: []\n", "no cable joins anything"),
        (NODES + "  gpu: {shape: 999999}\n  a: {shape: 99999}\nlinks: []\n", "more than 1048576 nodes"),
        (HEAD.replace("4x2", "900x900") + "      g*.* l* x4000\n", "8:5: .*more than 4194304 cables"),
        (HEAD + "      g0.0 l0\n", "g0.1 has no cable"),
        (HEAD + "      g0.0 g0.0\n", "8:5: links.0.cables: joins g0.0 with itself"),
        (HEAD + "      g*.* l*\n      g*.* g0.0\n", "9:5: .*joins g0.0 with itself"),
        (HEAD + "\n      g0.0 l0\n      g0.7 l0\n", "10:5: .*there is no node 'g0.7'"),
        (HEAD + "      g0.0\n", "8:5: .*is no cable; write both"),
        (HEAD + "      g*.* l0 x0\n", "8:5: .*'x0' is not read here"),
        (HEAD + "      g*.* l0 rate=0\n", "8:5: .*'0' is too small"),
        (HEAD + "      g*.* l0 element=g0.0\n", "8:5: .*element 'g0.0' is no switch"),
        (HEAD.replace("400Gb/s", "0") + "      g*.* l0\n", "6:5: links.0.rate: 0 is too small"),
        (HEAD.replace("400Gb/s", "[1Gb/s, x]") + "      g*.* l0\n", "6:19: links.0.rate.1: 'x' is not"),
        (HEAD.replace("400Gb/s", "[1Gb/s]") + "      g*.* l0\n", "6:5: links.0.rate: is missing"),
        (HEAD.replace("rate: 400Gb/s", "latency: 1s") + "      g*.* l0\n", "6:5: links.0.rate: is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line_and_fix(read: Load, text: str, why: str) -> None:
    with pytest.raises(ExperimentError, match=why):
        read(text)


def test_everything_wrong_is_listed_at_once(read: Load) -> None:
    with pytest.raises(ExperimentError, match="3 errors") as refused:
        read(HEAD + "      g0.0 g0.0\n      g9.9 l0\n      g0.0 l7\n")
    assert [line.split(":")[1] for line in str(refused.value).splitlines()[1:]] == ["8", "9", "10"]


@pytest.mark.parametrize("path", ["nowhere.yaml", ".", "/dev/zero", "a\0b"])
def test_what_is_no_file(path: str) -> None:
    with pytest.raises(ExperimentError):
        load(path)


def test_links_are_lossless_one_by_one_by_section_or_all(read: Load, tmp_path: Path) -> None:
    one = read(HEAD + "      g*.* l0 lossless=true\n      g0.0 l1\n")
    assert one.lossless[:16].all() and not one.lossless[16:].any()
    assert "lossless" in one.capabilities and not one.traits
    back = read(HEAD + "      g*.* l0\n").lossless
    assert not back.any()
    whole = read("fabric: 1\nlossless: true\n" + HEAD.removeprefix("fabric: 1\n") + "      g*.* l0\n")
    assert whole.lossless.all() and whole.traits == ("lossless",)
    section = HEAD.replace("400Gb/s", "400Gb/s\n    lossless: [true, false]") + "      g*.* l0\n"
    assert read(section).lossless.tolist() == [True, False] * 8
    but = "fabric: 1\nlossless: true\n" + section.removeprefix("fabric: 1\n")
    assert read(but) == read(section), "what a section says counts"
    path = tmp_path / "f.graphml"
    for fabric in (one, whole, read(section)):
        path.write_text(text_of(fabric, "graphml")[0])
        assert load(path).fabric == fabric


def test_two_groups_of_one_kind_have_no_file() -> None:
    cables = Cables([0, 1], [2, 3], [0, 0], [CableKind(("e", "e"), (1e9, 1e9))])
    groups = [NodeGroup("gpu", 0, (2,), "g"), NodeGroup("s", 2, (1,), "s"), NodeGroup("s", 3, (1,), "t")]
    with pytest.raises(FabricError, match="two groups of nodes of one kind"):
        text_of(cables.fabric("mine", groups, {}))


def test_the_example_of_the_page(read: Load) -> None:
    page = (EXAMPLES.parent / "docs" / "fabrics.md").read_text()
    fabric = read(page.partition("```yaml\n")[2].partition("```")[0])
    assert (fabric.n_gpus, fabric.n_links, fabric.axis_names) == (6, 2 * 12, ("domain", "rail"))
    assert fabric.capacity_bps[-1] == 2e11 and set(fabric.latency_s[-12:]) == {2e-6}


def test_the_examples() -> None:
    """Counts by hand: k^3/4 GPUs and 5 k^2/4 switches of a fat tree with k = 4, each of 4 ports."""
    tree = load(EXAMPLES / "fat-tree-k4.yaml").fabric
    assert (tree.n_gpus, tree.n_nodes - tree.n_gpus, tree.n_links) == (16, 20, 2 * 48)
    assert (np.bincount(tree.link_src)[16:] == 4).all()
    planes = load(EXAMPLES / "dual-plane.yaml").fabric
    assert (planes.n_gpus, planes.n_links) == (16, 2 * (16 + 2 * 16 + 2 * 4))
    beyond = planes.link_dst[planes.out_links(planes.node_ids["l0.0"])]
    assert {planes.node_name(int(node)) for node in beyond if node >= 24} == {"s0.0", "s0.1"}
    unequal = load(EXAMPLES / "unequal-domains.yaml").fabric
    assert unequal.capabilities == {"domains", "rails", "isolated-rails", "interfaces", "two-way"}
    assert [len(unequal.element_links(unequal.node_ids[f"d{d}"])) // 2 for d in range(3)] == [4, 2, 2]


def test_an_ocs_of_both_directions_is_one(read: Load) -> None:
    links = "links:\n  - rate: 400Gb/s\n    ocs: mirrors\n    cables: g0 g1\n"
    fabric = read("fabric: 1\nnodes:\n  gpu: {shape: 2}\n" + links)
    assert (fabric.ocs_names, fabric.ocs.tolist()) == (("mirrors",), [0, 0])
