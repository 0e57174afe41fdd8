"""The routers in examples/plugins: short, from railweave and numpy alone, and what their papers say."""

from __future__ import annotations

import ast
import json
import tokenize
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.model import HealthSnapshot
from railweave.framework.registry import FILES, Registers, load_plugins
from railweave.framework.routing.batches import all_paths, unreachable
from railweave.framework.routing.router_calls import ask
from railweave.framework.routing.table_checks import check_batch

FOLDER = Path(__file__).parents[1] / "examples" / "plugins"
FILES_THERE = sorted(FOLDER.glob("*.py"))
EXAMPLES = {path.stem: path for path in FILES_THERE if "register_routers" in path.read_text()}


@pytest.fixture
def registers(monkeypatch: pytest.MonkeyPatch) -> Registers:
    monkeypatch.setenv(FILES, ":".join(map(str, EXAMPLES.values())))
    return load_plugins()


def lines(path: Path) -> int:
    """Logical ones."""
    with path.open("rb") as file:
        return sum(token.type == tokenize.NEWLINE for token in tokenize.tokenize(file.readline))


def test_they_read_like_their_pseudo_code() -> None:
    counts = [lines(path) for path in EXAMPLES.values()]
    assert len(counts) == 5 and median(counts) <= 40 and max(counts) <= 120
    for path in FILES_THERE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [str(node.module)]
                assert all(name.partition(".")[0] in ("railweave", "numpy", "math") for name in names)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "valiant"])
def test_they_pass_the_check(name: str, registers: Registers) -> None:
    """But on the twisted torus, of 128 GPUs: paths by plain Python take it minutes there."""
    fabrics = ("rail-only", "rail-optimised", "ring", "torus", "fat-tree", "clos")
    report = check_plugin("router", name, registers, scale=False, fabrics=fabrics)
    assert report.passed, report.text()


@pytest.mark.parametrize("topology", ["torus", "fat-tree", "rail-optimised"])
def test_valiant_goes_round_by_sound_paths(topology: str, registers: Registers) -> None:
    """The whole check takes it minutes, as it asks for all pairs of 128 GPUs at every failure."""
    shape = {"shape": "4x4"} if topology == "torus" else {}
    fabric, valiant = rw.topology(topology, **shape), registers["router"]["valiant"]
    health = HealthSnapshot.healthy(fabric)
    batch = all_paths(ask(valiant, "valiant", fabric, health))
    check_batch(fabric, "valiant", batch, health)
    assert 1 < int(np.diff(batch.pair_start).max()) <= 4
    assert not unreachable(batch).size


def test_ethereal_loads_all_paths_alike(registers: Registers) -> None:
    """An all-to-all over T0 and T1 switches takes no longer than with packet spray, on paths of whole flows
    (arXiv 2407.00550: the largest load is the same)."""
    keys = {"engine": "fluid", "topology": "clos", "collective": "direct-all-to-all", "size": "2M"}
    ethereal, spray = (
        rw.run(**keys, router=name, iterations=2, registers=registers) for name in ("ethereal", "spray")
    )
    assert ethereal.summary.declared_time_us <= 1.01 * spray.summary.declared_time_us


def test_rails_spreads_over_all_rails_what_one_would_carry(registers: Registers) -> None:
    """All to all among the GPUs of one of four rails: four channels of the rail's rate join two domains, as
    domains are faster (arXiv 2510.19262, theorem 1), and the direct paths use one."""
    keys = {"engine": "fluid", "domains": 4, "rails": 4, "collective": "direct-all-to-all", "size": "16M"}
    rails, direct = (
        rw.run(**keys, ranks="rail:0", router=name, iterations=2, registers=registers)
        for name in ("rails", "hscore")
    )
    assert rails.summary.declared_time_us == pytest.approx(direct.summary.declared_time_us / 4, rel=0.1)


def called(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), prog_name="railweave")


def test_a_file_is_loaded_before_or_behind_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")
    file = str(EXAMPLES["valiant"])
    for words in (("--plugin", file, "routers", "--json"), ("routers", "--json", f"--plugin={file}")):
        shown = called(*words)
        assert shown.exit_code == 0, shown.output
        assert "valiant" in json.dumps(json.loads(shown.stdout))
        monkeypatch.setenv(FILES, "")
    assert "valiant" not in called("routers", "--json").stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n    pass\n", "line 1"),
        ("x = 1\nprint('hello')\n", "mine.py:2"),
        ("import sys\n\nsys.exit(3)\n", "mine.py:3"),
        ("x = 1\nAPI = 99\n", "mine.py:2 is made for plugin API 99"),
        ("API = 'one'\n", "mine.py:1: API = 'one' is no version. Write API = 1."),
        ("raise ValueError('no')\n", "ValueError"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILES, "")
    path = tmp_path / "mine.py"
    path.write_text(text)
    shown = called("--plugin", str(path), "routers")
    assert shown.exit_code == 2 and str(path) in shown.stderr and message in shown.stderr, shown.output


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")
    shown = called("run", "--plugin", "none.py")
    assert shown.exit_code == 2 and "none.py: there is no such file" in shown.stderr


BAD_ROUTER = """\
from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import Path, RouteTable
from railweave.framework.routing.equal_cost import ShortestPaths


class Bad(Router):
    summary = "answers wrongly"

    def configured(self, options):
        return self

    def routes(self, fabric, health):
        shortest = ShortestPaths(fabric, health.down)

        def paths_of(src, dst):
            return {answer}

        return RouteTable.of(fabric, paths_of)


@hookimpl
def register_routers(register):
    register("bad", Bad())
"""
BAD_CHOOSER = """\
import numpy as np
from railweave.framework.hookspecs import PathChooser, hookimpl


class Beyond(PathChooser):
    summary = "{choice}"
    state = np.dtype([("n", np.int64)])

    def configured(self, options):
        return self

    def start(self):
        return np.zeros(1, self.state)

    @staticmethod
    def use_paths(s, n_paths):
        s["n"] = n_paths

    @staticmethod
    def choose(s, now, draw, shares):
        return {choice}

    @staticmethod
    def acknowledged(s, now, path, marked, delay):
        pass

    @staticmethod
    def lost(s, now, path):
        pass


@hookimpl
def register_choosers(register):
    register("beyond", Beyond())
"""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("[Path(path.links, 0) for path in shortest(src, dst)]", "has the weight 0"),
        ("[Path(path.links, float('nan')) for path in shortest(src, dst)]", "has the weight nan"),
        ("[Path(path.links, '1') for path in shortest(src, dst)]", "has the weight '1'"),
        ("[shortest(src, dst)[0].links] * 10**6", "more than 16384 paths"),
        ("[(10**6,)]", "the fabric has no such link"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_routers_bad_answer_is_named_with_its_place(
    answer: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FILES, "")
    (tmp_path / "bad.py").write_text(BAD_ROUTER.format(answer=answer))
    words = ("run", "--engine", "fluid", "--plugin", "bad.py", "--router", "bad", "--fault", "none")
    shown = called(*words, "--domains", "2", "--rails", "2")
    assert shown.exit_code == 2 and message in shown.stderr, shown.output
    assert "bad.py:12" in shown.stderr or "bad.py:16" in shown.stderr, shown.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("engine", ["emulation", "packet"])
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("int(s['n'])", "gives path 2 of 0..1"),
        ("-1", "gives path -1 of 0..1"),
        ("10**6", "gives path 1000000 of 0..1"),
        ("0.5", "gives path 0.5 of 0..1"),
        ("float('nan')", "gives path nan of 0..1"),
        ("None", "gives path None of 0..1"),
        ("1 // 0", "ZeroDivisionError"),
    ],
)
def test_a_path_that_is_not_there_is_named_before_anything_starts(
    choice: str, message: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a fabric of two planes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FILES, "")
    (tmp_path / "bad.py").write_text(BAD_CHOOSER.format(choice=choice))
    words = ("run", "--plugin", "bad.py", "--chooser", "beyond", "--fault", "none", "--topology", "clos")
    shape = ("--servers", "2", "--gpus", "1", "--planes", "2", "--t0", "2", "--t1", "1")
    shown = called(*words, *shape, "--engine", engine)
    assert shown.exit_code == 2 and message in shown.stderr, shown.output
    assert any(f"bad.py:{line}" in shown.stderr for line in (19, 21)), shown.stderr
    assert not (tmp_path / "runs").exists()
