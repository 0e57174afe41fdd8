"""The functions of `import railweave as rw` that need no lab, and what importing costs in modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError, InputError
from railweave.framework.model import Fabric
from railweave.framework.registry import Registers, load_plugins
from railweave.plugins.shortest.router import Shortest


def run_python(code: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_neither_numpy_nor_any_plugin(tmp_path: Path) -> None:
    heavy = "{'numpy', 'pydantic', 'pluggy', 'click', 'rich', 'yaml', 'mininet', 'importlib.metadata'}"
    names = "dir(railweave) == sorted(dir(railweave))"
    code = f"import railweave, sys; print(sorted({heavy} & set(sys.modules)), {names})"
    assert run_python(code, tmp_path) == "[] True\n"


@pytest.mark.parametrize("folder", ["above the clone", "elsewhere", "the clone"])
def test_the_package_is_found_from_any_folder(folder: str, tmp_path: Path) -> None:
    clone = Path(__file__).parents[2]
    cwd = {"above the clone": clone.parent, "elsewhere": tmp_path, "the clone": clone}[folder]
    assert run_python("import railweave as rw; print(rw.topology('ring', nodes=6).n_gpus)", cwd) == "6\n"


def test_every_name_is_there_and_no_other() -> None:
    for name in rw.__all__:
        assert getattr(rw, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'rnu'"):
        _ = rw.rnu  # type: ignore[attr-defined]


def test_a_topology_takes_its_parameters_flat() -> None:
    fabric = rw.topology("rail-only", domains=2, rails=3, rail_rate="200Gb/s")
    assert isinstance(fabric, Fabric)
    # 2 x 3 GPUs, each cabled to its domain and its rail, both directions
    assert (fabric.n_gpus, fabric.n_links, set(fabric.capacity_bps)) == (6, 24, {200e9, 3600e9})


def test_every_mistake_is_listed_at_once() -> None:
    with pytest.raises(ExperimentError) as caught:
        rw.load(rails=0, router="hscroe", iterations="many")
    for text in ("rails", "Did you mean hscore", "iterations"):
        assert text in str(caught.value)


def test_keys_win_over_a_mapping_and_a_file(tmp_path: Path) -> None:
    content = {"topology": {"name": "rail-only", "domains": 2, "rails": 2}, "iterations": 3}
    file = tmp_path / "experiment.yaml"
    file.write_text("topology: {name: rail-only, domains: 2, rails: 2}\niterations: 3\n")
    for source in (content, file, str(file)):
        assert rw.load(source).iterations == 3
        assert rw.load(source, iterations=5, domains=3).fabric.n_gpus == 6


def test_no_fault_unless_asked_for() -> None:
    assert rw.load().faults == ()
    assert [f.text for f in rw.load(faults=["at=iter:1 degrade rail:1 to=20%"]).faults] == [
        "at=iter:1 degrade rail:1 to=20%"
    ]


def test_a_plan_takes_no_keys() -> None:
    plan = rw.load(domains=2, rails=2)
    assert rw.load(plan) is plan
    with pytest.raises(InputError, match="size: a Plan is complete"):
        rw.load(plan, size="4M")


def test_a_fabric_serves_where_nothing_runs_and_is_refused_by_name_where_it_does() -> None:
    fabric = rw.topology("ring", nodes=4)
    pair = rw.explain("g0", "g2", topology=fabric, router=Shortest())
    assert [len(path.hops) for path in pair.paths] == [2]
    with pytest.raises(ExperimentError, match="a Fabric object cannot be run"):
        rw.load(topology=fabric)
    assert rw.load(router=Shortest()).experiment.router.name == "shortest"


def test_explain_takes_names_and_coordinates_and_faults_without_a_time() -> None:
    by_name = rw.explain("g0.0", "g1.1", faults=["degrade rail:1 to=20%"])
    assert by_name == rw.explain("0,0", "1,1", faults=["at=0s degrade rail:1 to=20%"])
    assert min(hop.score for path in by_name.paths for hop in path.hops) == 1, "rail 1 is avoided"


def test_loads_of_all_to_all_on_a_torus() -> None:
    steps: list[tuple[int, int]] = []
    report = rw.loads(topology="torus", shape="4x4x4", router="dor", on_progress=lambda *s: steps.append(s))
    # n k / 8 units a direction by balanced minimal routing: 64 x 4 / 8
    assert np.all(report.load == 32)
    assert report.fabric.n_links == 384
    assert steps[-1] == (64 * 63, 64 * 63)


def test_registers_of_the_callers_own_are_used() -> None:
    assert rw.topology("ring", registers=load_plugins(), nodes=4) == rw.topology("ring", nodes=4)
    with pytest.raises(ExperimentError, match="there is no topology 'ring'"):
        rw.topology("ring", registers=Registers([]), nodes=4)


def test_a_notebook_shows_a_fabric_as_its_picture_or_in_words() -> None:
    picture = rw.topology(domains=2, rails=2)._repr_html_()
    assert picture.startswith("<svg") and "g1.1" in picture
    large = rw.topology("ring", nodes=4096)._repr_html_()
    assert large.startswith("<p>ring: 4096 GPUs, ")


def test_a_prompt_shows_a_fabric_in_a_line() -> None:
    # 4 GPUs, 2 domains and 2 rails, a cable of 2 links from every GPU to each kind of switch
    assert repr(rw.topology(domains=2, rails=2)) == "<Fabric rail-only: 4 GPUs, 4 switches, 16 links>"
