"""`railweave shell` at a terminal: what a user types, and what comes back."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

COMMAND = [str(Path(sys.executable).with_name("railweave")), "shell", "--domains", "2", "--rails", "2"]
PROMPT = "railweave> "
WITHIN_S = 60.0


class Terminal:
    """A pseudo-terminal that the command controls, as a terminal window is."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 400))  # no line that is typed wraps
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *COMMAND, "--rate-scale", "1e-4", "--fault", "none"],
            stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "dumb"},
        )  # fmt: skip
        os.close(theirs)

    def write(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read_to(self, end: str) -> str:
        """What is printed until `end`, which is included."""
        shown, deadline = "", time.monotonic() + WITHIN_S
        while end not in shown:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._ours], [], [], left)[0], f"no {end!r} in: {shown}"
            shown += os.read(self._ours, 1 << 16).decode(errors="replace")
        return shown

    def run(self, line: str) -> str:
        """What a command prints."""
        self.write(line + "\n")
        echo, _, shown = self.read_to(PROMPT).partition("\n")
        assert line in echo
        return shown.removesuffix(PROMPT)

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
    assert "/sbin" in terminal.run("h0.0 echo $PATH")
    assert terminal.run("h0.0 getent hosts h1.1").split() == ["10.1.1.1", "h1.1"]


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


def test_a_command_that_fails_leaves_the_prompt(terminal: Terminal) -> None:
    assert "*** KeyError: 'nowhere'" in terminal.run("x nowhere")
    assert terminal.run("py 1 + 1").strip() == "2"


def test_ctrl_c_ends_what_a_host_runs_and_not_the_lab(terminal: Terminal) -> None:
    # one process says so and waits: between two of them the host's bash may swallow the signal
    terminal.write("""h0.0 sh -c "echo be''gun; exec sleep 600"\n""")
    terminal.read_to("begun")
    terminal.write("\x03")
    terminal.read_to(PROMPT)
    assert terminal.run("py len(net.hosts)").strip() == "4"


def test_leaving_the_prompt_ends_the_lab(terminal: Terminal) -> None:
    terminal.write("exit\n")
    assert terminal.process.wait(WITHIN_S) == 0
