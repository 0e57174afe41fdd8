"""`railweave explain` on the sources' own cases, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.registry import Registers, load_plugins

Call = Callable[..., Result]

SETUP_A = "domains: {1: 1.0, 2: 0.8}\nrails: {1: 0.4, 2: 0.5, 3: 0.7, 4: 0.9, 5: 0.64}\n"
"""The example of Cisco Outshift, h-score routing, part 2; the source counts from 1."""


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


@pytest.fixture
def call(registers: Registers) -> Call:
    return lambda *words: CliRunner().invoke(
        main, ["explain", *map(str, words)], obj=registers, prog_name="railweave"
    )


@pytest.fixture
def setup_a(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(SETUP_A)
    return path


def test_setup_a_takes_the_lowest_routable_rail(call: Call, setup_a: Path) -> None:
    """H-O1 to H-O3: gammas 0.4 and 0.625, drd over rail 5 with 0.512, rd 0.32, dr 0.5."""
    shown = call(
        "1,1", "2,2", "--domains", 2, "--rails", 5, "--router", "hscore", "--scores", setup_a, "--json"
    )
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.output)
    assert document["schema"] == {"name": "railweave.explain", "version": 2}
    assert document["counts_from"] == 1
    assert document["src"] == {"name": "g0.0", "coordinates": [1, 1]}
    facts = document["facts"]
    assert (facts["gamma_src"], facts["gamma_dst"], facts["m"]) == pytest.approx((0.4, 0.625, 0.625))
    assert (facts["kind"], facts["remote_rail"]) == ("drd", "rail 5")
    assert facts["routable_rails"] == ["rail 5", "rail 3", "rail 4"]
    assert (facts["score"], facts["score_rd"], facts["score_dr"]) == pytest.approx((0.512, 0.32, 0.5))
    (path,) = document["paths"]
    assert path["score"] == pytest.approx(0.512)
    assert [hop["end"] for hop in path["hops"]] == [
        "domain 1", "gpu 1,5", "rail 5", "gpu 2,5", "domain 2", "gpu 2,2",
    ]  # fmt: skip
    assert [hop["score"] for hop in path["hops"]] == [1, 1, 0.64, 0.64, 0.8, 0.8]


def test_the_text_says_how_it_counts_and_what_decided(call: Call, setup_a: Path) -> None:
    shown = call("1,1", "2,2", "--domains", 2, "--rails", 5, "--scores", setup_a).output
    assert f"coordinates count from 1, as {setup_a} does; names such as g0.0 count from 0" in shown
    assert "path: 6 hops, score 0.512" in shown
    assert "why: best fit: the lowest usable rail above the bar, rail 5" in shown
    assert "gamma dst       0.625" in shown


def test_spray_shows_all_paths(call: Call, setup_a: Path) -> None:
    """Strict window, delta 1: the rails above m = 0.625, worst first: 5, 3, 4."""
    shown = call(
        "1,1", "2,2", "--domains", 2, "--rails", 5, "--router", "spray", "--scores", setup_a, "--json"
    )
    document = json.loads(shown.output)
    assert document["facts"]["window"] == ["rail 5", "rail 3", "rail 4"]
    assert [path["score"] for path in document["paths"]] == pytest.approx([0.56, 0.72, 0.512])
    assert [path["weight"] for path in document["paths"]] == pytest.approx([1 / 3] * 3)


def test_without_a_file_counting_is_from_0(call: Call) -> None:
    shown = call("0,0", "1,1", "--domains", 2, "--rails", 3)
    assert "gpu 0,0 to gpu 1,1" in shown.output and "count from" not in shown.output
    assert "why: no rail above the bar: gamma_src <= gamma_dst" in shown.output  # a tie gives dr


def test_a_degraded_rail_by_fault(call: Call) -> None:
    """Same rail, 20 %: m = 0.2 / (1 x 1), rails of 1 beat it, the lowest id wins a tie."""
    document = json.loads(call("0,0", "1,0", "--fault", "degrade rail:0 to=20%", "--json").output)
    assert document["faults"] == ["at=0s degrade rail:0 to=20%"]
    assert document["facts"]["m"] == pytest.approx(0.2)
    assert document["facts"]["remote_rail"] == "rail 1"


def test_the_parity_tie_of_the_tpu_paper(call: Call) -> None:
    """T-O1: 8x8x8 (1,0,0) to (5,0,0) goes x: 1, 0, 7, 6, 5."""
    document = json.loads(
        call("1,0,0", "5,0,0", "--topology", "torus", "--shape", "8x8x8", "--router", "dor", "--json").output
    )
    (path,) = document["paths"]
    assert [hop["end"] for hop in path["hops"]] == ["gpu 0,0,0", "gpu 7,0,0", "gpu 6,0,0", "gpu 5,0,0"]
    assert [hop["vc"] for hop in path["hops"]] == [0, 0, 1, 1]  # the dateline is behind the wrap 0 -> 7
    assert document["facts"]["order"] == "XYZ"
    assert document["facts"]["displacement"] == "x -4, y 0, z 0"
    assert document["facts"]["ties"] == ["x: half way round 8, source at x = 1, so down (odd)"]


def test_wild_hops_around_a_lost_ocs(call: Call) -> None:
    """T-O2: OCS X(0,0) of 4x4x8 carries (3,0,0)-(0,0,0); around it in three hops, one of them wild."""
    words = ("3,0,0", "0,0,0", "--topology", "torus", "--shape", "4x4x8", "--fault", "at=2s down ocs:X:0,0")
    document = json.loads(call(*words, "--router", "wfr", "--json").output)
    facts = document["facts"]
    assert facts["wild_hops"] in ("y+", "y-") and facts["blocked"] == ["g3.0.0->g0.0.0"]
    assert len(document["paths"][0]["hops"]) == 3
    assert "none: 1 hops, crosses g3.0.0->g0.0.0, which is down" in facts["candidates"]
    cut = call(*words, "--router", "dor")
    assert cut.exit_code == 0
    assert "no path: the pair is cut off" in cut.output and "why: unreachable" in cut.output


def test_ecmp_shows_the_switches_with_a_choice(call: Call) -> None:
    document = json.loads(
        call("0,0", "1,1", "--topology", "rail-optimised", "--router", "ecmp", "--json").output
    )
    (choice,) = document["facts"]["choices"]
    assert choice.startswith("rail 0: r0->s") and choice.endswith("of r0->s0, r0->s1")


def test_a_gpu_to_itself_needs_no_path(call: Call) -> None:
    shown = call("0,0", "0,0")
    assert shown.exit_code == 0 and "no path: the same GPU" in shown.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("0,0", "9,1"), "DST 9,1: there is no such gpu; there are 0..3,0..3 (domain,rail)"),
        (("0", "1,1"), "SRC 0: a gpu has 2 coordinates here, not 1"),
        (("a,b", "1,1"), "SRC a,b: there is no such gpu"),
        (("g0.0", "g9.9"), "DST g9.9: this fabric has no node of that name. Its GPUs are g0.0 to g3.3"),
        (("g0.0", "r1"), "DST r1: this is a rail, not a GPU. Its GPUs are g0.0 to g3.3"),
        (
            ("0,0", "1,1", "--topology", "torus", "--router", "hscore"),
            "router hscore does not serve this torus",
        ),
        (("0,0", "1,1", "--fault", "down rail:99"), "there is no rail:99"),
        (("0,0", "1,1", "--fault", "kill controller"), "changes no route"),
        (("0,0", "1,1", "--set", "size=4"), "--set size: changes no route"),
        (("0,0", "1,1", "--scores", "nowhere.yaml"), "nowhere.yaml: there is no such file"),
        (("0,0,0", "1,1,1", "--topology", "torus", "--router", "dor", "--shape", "4x4"), "has 2 coordinates"),
    ],
)
def test_what_cannot_be_explained_is_refused(call: Call, words: tuple[str, ...], message: str) -> None:
    refused = call(*words)
    assert refused.exit_code == 2 and message in refused.output


class Broken(Router):
    """A stranger's router that fails in a way of its choice."""

    summary = "broken"
    serves = ("*",)
    damped = False

    def __init__(self, how: str) -> None:
        self._how = how

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        def resolve(src: Int64, dst: Int64) -> PathBatch:
            link = 10**6 if self._how == "missing" else 0
            return PathBatch(src, dst, [0, 1], [1.0], [0, 1], [link])  # type: ignore[arg-type]

        if self._how == "raises":
            raise KeyError("rails")
        if self._how == "nothing":
            return None  # type: ignore[return-value]
        return RouteTable("broken", 0, fabric.n_gpus, resolve)


@pytest.mark.parametrize(
    ("how", "words", "message"),
    [
        ("raises", (), "router broken: routes() of a rail-only fabric fails with KeyError: 'rails' ("),
        (
            "nothing",
            (),
            "router broken: routes() of a rail-only fabric returns nothing instead of a RouteTable",
        ),
        ("missing", (), "router broken gave a path over link 1000000"),
        (
            "dead",
            ("--fault", "down link:g0.0->d0"),
            "router broken leads g0.0 -> g1.1 over g0.0->d0, which is down",
        ),
        ("short", (), "the last link does not reach the destination"),
    ],
)
def test_a_broken_plugin_is_named(how: str, words: tuple[str, ...], message: str) -> None:
    from railweave.topologies import plugin as topologies

    class Stranger:
        @hookimpl
        def register_routers(self, register: Callable[[str, object], None]) -> None:
            register("broken", Broken(how))

    registers = Registers([("topologies", topologies), ("stranger", Stranger())])
    refused = CliRunner().invoke(main, ["explain", "0,0", "1,1", "--router", "broken", *words], obj=registers)
    assert refused.exit_code == 2 and message in refused.output


def test_a_router_without_reasons_gets_its_path_shown(call: Call) -> None:
    shown = call("0,0", "1,1", "--router", "shortest")
    assert shown.exit_code == 0
    assert "path: 4 hops" in shown.output and "the router gives no reasons" in shown.output
