"""`railweave shell` at a terminal: what a user types, and what comes back."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.untimed]

COMMAND = [str(Path(sys.executable).with_name("railweave")), "shell", "--domains", "2", "--rails", "2"]
PROMPT = "railweave> "
WITHIN_S = 30.0
PRESSES = 3
COLUMNS = 400
"""No line that is typed wraps, and tables are wide."""


class Terminal:
    """A pseudo-terminal that the command controls, as a terminal window is."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, COLUMNS))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *COMMAND, "--rate-scale", "1e-4", "--fault", "none"],
            stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": "dumb", "COLUMNS": str(COLUMNS)},
        )  # fmt: skip
        os.close(theirs)

    def write(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read_to(self, end: str) -> str:
        """What is printed until `end`, which is included."""
        shown = self.read_for(end, WITHIN_S)
        assert end in shown, f"no {end!r} in: {shown}"
        return shown

    def read_for(self, end: str, within_s: float) -> str:
        """What is printed until `end`, or until so much time has passed."""
        shown, deadline = "", time.monotonic() + within_s
        while end not in shown and (left := deadline - time.monotonic()) > 0:
            if select.select([self._ours], [], [], left)[0]:
                shown += os.read(self._ours, 1 << 16).decode(errors="replace").replace("\a", "")
        return shown

    def interrupt(self) -> None:
        """Ctrl-C, and the next prompt. Once more where nothing comes of it: Mininet's command line says of
        itself that an interrupt may be lost (mininet/cli.py, waitForNode)."""
        shown = ""
        for _ in range(PRESSES):
            self.write("\x03")
            if PROMPT in (shown := self.read_for(PROMPT, WITHIN_S / PRESSES)):
                return
        raise AssertionError(f"no prompt after {PRESSES} times Ctrl-C: {shown}")

    def run(self, line: str) -> str:
        """What a command prints."""
        self.write(line + "\n")
        echo, _, shown = self.read_to(PROMPT).partition("\n")
        assert line in echo
        return shown.removesuffix(PROMPT)

    def until(self, line: str, word: str) -> str:
        """What a command prints once it prints `word`."""
        deadline = time.monotonic() + WITHIN_S
        while word not in (shown := self.run(line)):
            assert time.monotonic() < deadline, shown
        return shown

    def rest(self) -> str:
        """What is left to read once the command has ended."""
        pieces = []
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(self._ours, 1 << 16):
                pieces.append(piece.decode())
        return "".join(pieces)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    try:
        assert "h0.0 ping -c2 h1.0" in terminal.read_to(PROMPT)
        yield terminal
    finally:
        terminal.close()


def test_hosts_have_a_path_and_know_each_other_by_name(terminal: Terminal) -> None:
    path, home, shell = terminal.run("h0.0 printenv PATH HOME SHELL").split()
    assert "/sbin" in path and Path(home).is_dir() and Path(shell).is_file()
    assert terminal.run("h0.0 getent hosts h1.1").split() == ["10.1.1.1", "h1-1", "h1.1"]


def test_hosts_reach_each_other_by_tcp(terminal: Terminal) -> None:
    server = "import socket; s = socket.create_server(('', 5000)); print(s.accept()[0].recv(99).decode())"
    terminal.run(f'h1.0 timeout 30 {sys.executable} -c "{server}" >/run/received &')
    terminal.run("h0.0 timeout 30 bash -c 'until echo hello 2>/dev/null >/dev/tcp/h1.0/5000; do :; done'")
    assert "hello" in terminal.run("h1.0 wait; cat /run/received")


def test_a_host_name_in_a_command_is_its_address(terminal: Terminal) -> None:
    assert terminal.run("h0.0 echo h1.0").strip() == "10.1.0.1"


def test_python_expressions_take_the_names_of_hosts(terminal: Terminal) -> None:
    assert terminal.run("py h1.0.IP() + ' is h1.0'").strip() == "10.1.0.1 is h1.0"


def test_flows_are_shown_in_the_version_that_the_switches_speak(terminal: Terminal) -> None:
    shown = terminal.run("dpctl dump-flows")
    assert shown.count("*** ") == 4 + 2 + 2  # NICs, domains, rails
    assert shown.count("cookie=") >= 8 and "negotiation failed" not in shown


def test_everybody_answers_a_ping_and_tcp_gets_the_shaped_rate(terminal: Terminal) -> None:
    assert "*** Results: 0% dropped (12/12 received)" in terminal.run("pingall")
    measured = re.search(r"(\d+)% of the shaped rate 40 Mb/s", terminal.run("iperf h0.0 h1.0 2"))
    assert measured is not None and 85 <= int(measured[1]) < 100


def test_what_mininet_shows_of_a_network(terminal: Terminal) -> None:
    assert "h0.0 h0.1 h1.0 h1.1 r0 r1" in terminal.run("nodes")
    assert "r1 lo:  r1-eth1:g0.1-eth3 r1-eth2:g1.1-eth3" in terminal.run("net")
    assert "<LabHost h1.1: h1.1-eth0:10.1.1.1 pid=" in terminal.run("dump")
    assert terminal.run("links").count("(OK OK)") == 12


@pytest.mark.parametrize(
    ("down", "up", "score"),
    [("link g0.1 r1 down", "link g0.1 r1 up", 0.5), ("switch r1 stop", "switch r1 start", 0.0)],
)
def test_traffic_leaves_what_is_down_and_comes_back(
    terminal: Terminal, down: str, up: str, score: float
) -> None:
    terminal.run(down)
    terminal.until("health", f"rail:1           {score:.2f}")
    terminal.until("routes g0.1 g1.1", "g0.1 -> d0 -> g0.0 -> r0 -> g1.0 -> d1 -> g1.1 ")
    assert "0% dropped" in terminal.run("pingall")
    terminal.run(up)
    terminal.until("health", "all 16 links are at 1.00")
    terminal.until("routes h0.1 h1.1", "g0.1 -> r1 -> g1.1 ")
    assert "0% dropped" in terminal.run("pingall")


def test_a_run_in_the_lab_shows_its_table_and_ctrl_c_ends_it_alone(terminal: Terminal) -> None:
    shown = terminal.run("run ring-all-reduce 64K iterations=2")
    assert "Collective test concluded: ring-all-reduce" in shown, shown
    terminal.write("run all-reduce 4M iterations=99\n")
    terminal.read_to("iteration 1 ")
    terminal.interrupt()
    assert "0 wrong" in terminal.run("run all-reduce 64K iterations=1")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("fault degra", "degrade"),
        ("routes g1", "g1."),
        ("switch r0 sto", "stop"),
        ("run pipel", "pipelined-all-"),
    ],
)
def test_tab_completes(terminal: Terminal, typed: str, completed: str) -> None:
    terminal.write(typed + "\t")
    terminal.read_to(completed)
    terminal.write(
        "?\n"
    )  # no command; Python's readline misses a Ctrl-C that comes just after it has written
    terminal.read_to(PROMPT)


def test_commands_have_help_and_mistakes_an_answer(terminal: Terminal) -> None:
    for command, usage in (
        ("fault", "to=20%"),
        ("routes", "SRC DST"),
        ("run", "all-reduce 1M"),
        ("health", "links"),
    ):
        assert usage in terminal.run(f"help {command}")
    for line, answer in (
        ("x nowhere", "*** x: there is no display in a lab. Run the command here instead: `nowhere CMD`."),
        ("xterm h0.0", "Run the command here instead: `h0.0 CMD`."),
        ("fault degrade rail:9 to=20%", "there is no rail:9"),
        ("link h0.0 g0.0 down", "no link of the fabric. For its GPU's links: fault down gpu:0.0."),
        ("switch r9 stop", "there is no node 'r9'. `nodes` lists all."),
        ("iperf h0.0 h9.0", "there is no host 'h9.0'. "),
        ("iperf h0.0 h0.0", "iperf takes two different hosts"),
        ("fault", "*** fault takes what happens to what"),
        ("routes g0.0", "*** routes takes SRC DST (got 'g0.0')."),
        ("run all-redcue", "all-reduce"),
        ("pingal", "there is no command or node 'pingal'. Did you mean pingall?"),
        ("source no-such-file", "*** source no-such-file: cannot be read: No such file or directory."),
        ("py 1 / 0", "*** ZeroDivisionError: division by zero"),
    ):
        assert answer in terminal.run(line)
    assert terminal.run("py 1 + 1").strip() == "2"


def test_the_prompt_is_not_the_process_that_runs_the_health_loop(terminal: Terminal) -> None:
    assert terminal.run("py __import__('os').getpid() == 1").strip() == "False"


def test_ctrl_c_ends_what_a_host_runs_and_not_the_lab(terminal: Terminal) -> None:
    # one process says so and waits: between two of them the host's bash may swallow the signal
    terminal.write("""h0.0 sh -c "echo be''gun; exec sleep 600"\n""")
    terminal.read_to("begun")
    terminal.interrupt()
    assert terminal.run("py len(net.hosts)").strip() == "4"


def test_source_carries_out_the_commands_of_a_file(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("# addresses\npy h1.0.IP()\nh0.0 echo h0.1  # of another\n")
    shown = terminal.run(f"source {tmp_path / 'commands'}")
    assert shown.split() == ["10.1.0.1", "10.0.1.1"]


def test_leaving_the_prompt_ends_the_lab(terminal: Terminal) -> None:
    terminal.write("exit\n")
    assert terminal.process.wait(WITHIN_S) == 0, terminal.rest()


def piped(lines: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "--rate-scale", "1e-4"]
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=WITHIN_S, check=False, **more
    )


def test_piped_commands_end_with_an_exit_code() -> None:
    """The command on the host reads nothing of what follows."""
    done = piped("h0.0 head -c1; false\npy h1.0.IP()\nnonsense\n")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "10.1.0.1"
    assert done.stderr.startswith("*** there is no command or node 'nonsense'")


def test_what_happens_while_the_prompt_is_left_harms_nobody() -> None:
    """Faults fall due from before it ends until after; the lab goes on telling of them for a moment."""
    faults = [f"fault at=400ms degrade rail:1 to={20 + number % 50}%" for number in range(300)]
    done = piped("\n".join([*faults, "h0.0 sleep 0.3\n"]))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can be had as root alone")
def test_an_ordinary_user_has_the_same_prompt() -> None:
    done = piped("pingall\nh0.0 id -u\n", user=65534, group=65534, extra_groups=[], cwd="/")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0% dropped" in done.stdout and done.stdout.splitlines()[-1] == "0"
