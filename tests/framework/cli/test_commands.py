"""Commands other than `run`, on registers of real plugins."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import COMMANDS, main
from railweave.framework.cli._context import table
from railweave.framework.cli._options import ExperimentCommand
from railweave.framework.errors import PluginError
from railweave.framework.registry import Registers

Call = Callable[..., Result]


@pytest.fixture
def call(registers: Registers) -> Call:
    return lambda *words: CliRunner().invoke(main, list(words), obj=registers, prog_name="railweave")


def every_command() -> list[list[str]]:
    """Words of each command and subcommand."""
    words: list[list[str]] = [[]]
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        words.append([name])
        if isinstance(command, click.Group):
            words += [[name, sub] for sub in command.commands]
    return words


def command_of(words: list[str], registers: Registers | None = None) -> tuple[click.Command, click.Context]:
    """The command of these words, and its context."""
    command: click.Command = main
    context = click.Context(main, info_name="railweave", obj=registers, **main.context_settings)
    for word in words:
        assert isinstance(command, click.Group)
        inner = command.get_command(context, word)
        assert inner is not None
        command, context = inner, click.Context(inner, context, word)
    return command, context


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_help_ends_with_an_example(call: Call, words: list[str]) -> None:
    shown = call(*words, "--help")
    assert shown.exit_code == 0
    tail = shown.output.split("Example:\n")[1]
    assert tail.startswith(f"    railweave {' '.join(words)}".rstrip())
    assert call(*words, "-h").output == shown.output


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_help_fits_a_screen_and_shows_no_unfinished_sentence(call: Call, words: list[str]) -> None:
    """50 lines of 80 columns, the prompt in the last one."""
    lines = call(*words, "--help").output.splitlines()
    assert len(lines) < 50
    assert [line for line in lines if line.endswith("...") and not line.startswith("Usage:")] == []


@pytest.mark.parametrize(
    "words",
    [words for words in every_command() if isinstance(command_of(words)[0], ExperimentCommand)],
    ids=" ".join,
)
def test_help_all_shows_every_option_and_help_some_of_them(
    call: Call, registers: Registers, words: list[str]
) -> None:
    short, whole = (call(*words, option).output for option in ("--help", "--help-all"))
    shown, every = (
        set(re.findall(r"^  (?:-., )?(--[a-z0-9-]+)", text, re.MULTILINE)) for text in (short, whole)
    )
    command, context = command_of(words, registers)
    declared = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    assert every == {option.opts[-1] for option in declared if not option.hidden}
    assert {"--help-all"} <= shown < every and len(short.splitlines()) < len(whole.splitlines())


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from railweave.framework.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'pydantic', 'yaml', 'pluggy', 'mininet', 'scapy', 'ryu', 'msgpack'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "Run an experiment in a lab" in done.stdout


def test_the_version_is_told(call: Call) -> None:
    assert call("--version").output.startswith("railweave ")


@pytest.mark.parametrize(
    "words", [["nothing"], ["run", "--bogus"], ["topo", "show", "--nodes"], ["bench", "x"]]
)
def test_bad_usage_exits_with_2(call: Call, words: list[str]) -> None:
    assert call(*words).exit_code == 2


def test_a_misspelt_command_is_answered_with_the_nearest(call: Call) -> None:
    assert "No such command 'rn'. Did you mean run?" in call("rn").stderr
    assert "Did you mean" not in call("xyzzy").stderr


def test_a_broken_plugin_is_named_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Registers:
        raise PluginError("plugin x cannot be loaded")

    monkeypatch.setattr("railweave.framework.cli._context.load_plugins", broken)
    shown = CliRunner().invoke(main, ["routers"])
    assert (shown.exit_code, shown.stderr) == (2, "railweave: plugin x cannot be loaded\n")
    verbose = CliRunner().invoke(main, ["routers", "-v"])
    assert verbose.stderr.startswith("Traceback")
    assert verbose.stderr.endswith("railweave: plugin x cannot be loaded\n")


def test_routers_tell_what_they_serve(call: Call) -> None:
    lines = call("routers").output.splitlines()
    assert lines[0].split()[:3] == ["router", "fabrics", "options"]
    assert any(
        line.startswith("hscore") and "interfaces" in line and "same_rail_detour=true" in line
        for line in lines
    )
    document = json.loads(call("routers", "--json").output)
    assert document["schema"] == {"name": "railweave.routers", "version": 1}
    nowhere = next(r for r in document["routers"] if r["name"] == "nowhere")
    assert nowhere == {
        "name": "nowhere",
        "serves": ["torus"],
        "requires": [],
        "options": {"depth": 2},
        "summary": "torus alone",
        "plugin": "others",
    }


def test_plugins_list_kind_name_and_holder(call: Call) -> None:
    document = json.loads(call("plugins", "--json").output)
    kinds = [p["kind"] for p in document["plugins"]]
    assert kinds[0] == "topology"
    assert {
        "kind": "engine",
        "name": "emulation",
        "plugin": "others",
        "summary": "stands for a process",
    } in document["plugins"]
    only = call("plugins", "--kind", "router").output.splitlines()[1:]
    assert [line.split()[0] for line in only] == ["router", "router"]
    wrong = call("plugins", "--kind", "routers")
    assert wrong.exit_code == 2
    assert "topology, router" in wrong.stderr


def test_topologies_are_listed_with_their_defaults(call: Call) -> None:
    assert "rail_rate=400Gb/s" in call("topo", "list").output
    document = json.loads(call("topo", "list", "--json").output)
    assert {"loop", "rail-only"} <= {t["name"] for t in document["topologies"]}
    rail_only = next(t for t in document["topologies"] if t["name"] == "rail-only")
    assert rail_only["options"]["rails"] == 4


def test_a_fabric_is_shown_in_numbers(call: Call) -> None:
    shown = call("topo", "show", "rail-only", "--domains", "2", "--rails", "3", "--rail-rate", "200Gb/s")
    assert shown.exit_code == 0
    assert shown.output.startswith("rail-only: 6 GPUs, 5 switches, 24 links\n")
    assert [line.split() for line in shown.output.splitlines() if line.startswith(("d ", "r "))] == [
        ["d", "12", "3.6Tb/s", "0s"],
        ["r", "12", "200Gb/s", "0s"],
    ]
    document = json.loads(call("topo", "show", "--set", "rails=2", "--links", "--json").output)
    assert document["gpus"] == 8
    assert document["links"][1] == {"kind": "r", "count": 16, "capacity_bps": 400e9, "latency_s": 0.0}
    assert len(document["every_link"]) == 32
    assert document["every_link"][0]["name"] == "g0.0->d0"


def test_a_wrong_option_of_a_fabric_is_named(call: Call) -> None:
    for words, text in (
        (["--rails", "x"], "--rails: 'x' is not a whole number, 1 or more."),
        (["loop", "--rails", "2"], "--rails: topology loop has no option 'rails'; it takes: gpus."),
        (["rail-onyl"], "NAME: there is no topology 'rail-onyl'"),
        (["--set", "rails"], "is not KEY=VALUE"),
        (["--set", "router.x=1"], "no option of a fabric"),
        (["--rails", "2", "--set", "topology.rails=3"], "set twice, by --rails and --set"),
    ):
        shown = call("topo", "show", *words)
        assert shown.exit_code == 2, words
        assert text in shown.stderr


def test_an_option_by_its_other_name_is_the_same_option(call: Call) -> None:
    shown = call("explain", "g0.0", "g1.1", "--fault", "down rail:1", "--set", "fault=down rail:0")
    assert shown.exit_code == 2 and "faults is set twice, by --fault and --set." in shown.stderr


def test_columns_of_numbers_are_right_aligned() -> None:
    assert table(("a", "n"), [("xx", 5), ("y", 12)]) == "a    n\nxx   5\ny   12"
    assert table(("a", "b"), []) == "a  b"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(call: Call, shell: str) -> None:
    shown = call("completion", shell)
    assert shown.exit_code == 0 and "_RAILWEAVE_COMPLETE" in shown.stdout
    assert call("completion", "csh").exit_code == 2


@pytest.mark.parametrize(
    ("words", "completed"),
    [("railweave comp", {"compare", "completion"}), ("railweave run --help-", {"--help-all"}),
     ("railweave completion b", {"bash"})],
)  # fmt: skip
def test_bash_completes_by_the_script(words: str, completed: set[str]) -> None:
    """Bash itself runs the function of the script, which asks the installed command."""
    bash, railweave = shutil.which("bash"), Path(sys.executable).with_name("railweave")
    if bash is None or not railweave.exists():
        pytest.skip("needs bash and an installed railweave")
    script = (
        f'PATH={railweave.parent}:$PATH; eval "$(railweave completion bash)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; _railweave_completion railweave\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == completed
