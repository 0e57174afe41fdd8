"""Mininet's prompt for an open lab: its commands, some of them by railweave's means, and those of the lab."""

import logging
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import call
from typing import Any

import numpy as np
from mininet.cli import CLI
from mininet.log import StreamHandlerNoNewline, error, lg, output

from railweave.framework.errors import InputError, RailweaveError, did_you_mean
from railweave.framework.lab.handle.client import LabClient
from railweave.framework.lab.handle.iperf import received_bps, shaped_bps
from railweave.framework.lab.interface_names import host_name
from railweave.framework.lab.tasks.completion import Completion
from railweave.framework.model.events import Progress, RunEvent
from railweave.framework.results.result import RunResult

Words = Callable[[Any], str | None]
"""The line for an event, or the text for a result."""
SHOWN_SCORES = 16
"""Scores that are listed one by one; of more, those below 1."""
HELP = """
Names of nodes are commands: `h0.0 CMD` runs CMD on host h0.0, as root of the lab, with addresses for names.
    railweave> h0.0 ping -c2 h1.0
    railweave> fault degrade rail:1 to=20%
    railweave> run all-reduce 1M iterations=4
`help COMMAND` says more. Ctrl-C interrupts a command.
"""


class Prompt(CLI):  # type: ignore[misc]
    """Runs until its user leaves it, or its input ends. `failed`: whether any command did.

    `line`: what is shown of an event; `report`: of a result. Events that no command waits for are shown
    before the next prompt.
    """

    prompt = "railweave> "
    identchars = CLI.identchars + "."  # so that h0.0 is one word
    helpStr = HELP

    def __init__(self, net: Any, line: Words, report: Words) -> None:
        self._line, self._report = line, report
        self.lab: LabClient
        self.failed, self._news, self._waits = False, list[str](), False
        self._net = net

    def open(self, lab: LabClient) -> None:
        """Read and carry out commands until the end."""
        self.lab, self.fabric = lab, lab.plan.fabric
        self._completion = Completion(self.fabric, lab.registers)
        self._hosts = {host_name(self.fabric, gpu): gpu for gpu in range(self.fabric.n_gpus)}
        lg.handlers[0].setStream(sys.stdout)
        lg.handlers[0].addFilter(lambda record: record.levelno < logging.ERROR)
        errors = StreamHandlerNoNewline(sys.stderr)
        errors.setLevel(logging.ERROR)
        errors.addFilter(self._failure)
        lg.addHandler(errors)
        super().__init__(self._net)

    def heard(self, event: RunEvent) -> None:
        """Show an event, now or before the next prompt."""
        if isinstance(event, Progress) or (line := self._line(event)) is None:
            return
        if self._waits:
            output(line + "\n")
        else:
            self._news.append(line)

    # -- the loop --------------------------------------------------------------------------------------
    @classmethod
    def initReadline(cls) -> None:
        try:
            import readline
        except ImportError:
            return
        readline.set_completer_delims(" \t\n")

    def run(self) -> None:
        if self.isatty():
            super().run()
        else:
            self.prompt = ""
            self.cmdloop()

    def onecmd(self, line: str) -> Any:
        try:
            return super().onecmd(line)
        except RailweaveError as failure:
            error(f"*** {failure}\n")
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - Mininet's raise and exit freely
            error(f"*** {type(failure).__name__}: {failure}\n")
        return False

    def postcmd(self, stop: Any, line: str) -> Any:
        news, self._news = self._news, []
        output("".join(text + "\n" for text in news))
        return stop

    def _failure(self, _: logging.LogRecord) -> bool:
        self.failed = True
        return True

    # -- commands on nodes -----------------------------------------------------------------------------
    def default(self, line: str) -> None:
        name, command, _ = self.parseline(line)
        if name not in self.mn:
            names = [*self.mn, *(name[3:] for name in self.get_names() if name.startswith("do_"))]
            word = line.split()[0]
            raise InputError(
                f"there is no command or node {word!r}.{did_you_mean(word, names)} `help` lists all."
            )
        command = (command or "").rstrip().rstrip(";")
        waits = bool(command) and not command.endswith("&")
        if waits and not self.isatty():  # what follows on standard input are the next commands
            line = f"{name} {{ {command} ; }} </dev/null"
        super().default(line)
        if waits:
            status = self.mn[name].cmd("echo $?").strip()
            self.failed = self.failed or status != "0"

    def waitForNode(self, node: Any) -> None:
        if self.isatty():
            super().waitForNode(node)
            return
        while node.waiting:
            output(node.monitor().replace("\r", ""))

    def do_py(self, line: str) -> None:
        """Evaluate a Python expression; nodes go by their names.
        Usage: py h0.0.IP()"""
        result = eval(self._as_python(line), globals(), self.getLocals())
        if result is not None:
            output(f"{result if isinstance(result, str) else repr(result)}\n")

    def do_px(self, line: str) -> None:
        """Execute a Python statement; nodes go by their names.
        Usage: px print(h0.0.cmd('ls'))"""
        exec(self._as_python(line), globals(), self.getLocals())  # noqa: S102 - it is what is asked for

    def do_sh(self, line: str) -> None:
        """Run a command outside of all hosts.
        Usage: sh COMMAND"""
        self.failed |= call(line, shell=True) != 0

    def do_source(self, line: str) -> Any:
        """Carry out the commands of a file, one on each line.
        Usage: source FILE"""
        (name,) = self._words("source", line, "FILE", 1)
        try:
            commands = Path(name).read_text().splitlines()
        except (OSError, ValueError) as failure:
            why = failure.strerror if isinstance(failure, OSError) else "it is not UTF-8 text"
            raise InputError(f"source {name}: cannot be read: {why}. Give a file of commands.") from None
        return any(self.onecmd(self.precmd(command)) for command in commands)

    def do_pingall(self, line: str) -> None:
        """Ping between all hosts.
        Usage: pingall [TIMEOUT]"""
        self.failed |= self.mn.pingAll(line) > 0

    def do_xterm(self, line: str) -> None:
        """There is no display in a lab; `HOST COMMAND` runs a command."""
        node, term = next(iter(line.split()), "h0.0"), self.lastcmd.split()[0]
        raise InputError(f"{term}: there is no display in a lab. Run the command here instead: `{node} CMD`.")

    do_gterm = do_x = do_xterm

    def do_iperf(self, line: str) -> None:
        """Measure TCP between two hosts with iperf3; the first and the last by default, for 10 s.
        Usage: iperf [SRC DST [SECONDS]]"""
        self._iperf(line.split())

    def do_iperfudp(self, line: str) -> None:
        """Measure UDP at a rate with iperf3.
        Usage: iperfudp RATE [SRC DST [SECONDS]], such as iperfudp 2M h0.0 h1.0"""
        rate, *words = line.split() or ["1M"]
        self._iperf(words, rate)

    def _iperf(self, words: list[str], udp: str = "") -> None:
        names = list(self._hosts)
        src, dst, seconds, *extra = [*words, *(names[0], names[-1], "10")[len(words) :]]
        if extra or len(words) == 1 or src == dst:
            raise InputError(
                "iperf takes two different hosts and a time in seconds, such as: iperf h0.0 h1.0 10."
            )
        shaped = shaped_bps(self.lab, src, dst)
        received = received_bps(self.lab, src, dst, self._number("SECONDS", seconds), udp)
        output(
            f"*** Results: {dst} received {received / 1e6:.3g} Mb/s from {src} by {'UDP' if udp else 'TCP'}, "
            f"{received / shaped:.0%} of the shaped rate {shaped / 1e6:.3g} Mb/s\n"
        )

    def _number(self, label: str, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{label}: {text!r} is not a number.") from None

    # -- faults ----------------------------------------------------------------------------------------
    def do_fault(self, line: str) -> None:
        """Inject a fault, now or at=TIME from now.
        Usage: fault degrade rail:1 to=20%    (docs/experiment.md has all verbs)"""
        if not (words := shlex.split(line)):
            raise InputError("fault takes what happens to what, such as: fault degrade rail:1 to=20%.")
        self.lab.fault(" ".join(words))

    def do_link(self, line: str) -> None:
        """Take the cables between two nodes down, or up again: a fault.
        Usage: link NODE NODE down|up"""
        a, b, state = self._words("link", line, "NODE NODE down|up", 3)
        self._one_of("link", state, ("down", "up"))
        for name in (a, b):
            self._node(name)
        if a in self._hosts or b in self._hosts:
            host = a if a in self._hosts else b
            gpu = ".".join(map(str, self.fabric.coordinates(self._hosts[host])))
            raise InputError(
                f"the cable of {host} is no link of the fabric. For its GPU's links: fault {state} gpu:{gpu}."
            )
        ids, fabric = self.fabric.node_ids, self.fabric
        links = np.flatnonzero((fabric.link_src == ids[a]) & (fabric.link_dst == ids[b])).tolist()
        if not links:
            raise InputError(f"no link joins {a} and {b}. `net` lists what is joined.")
        for link in links:
            self.lab.fault(f"{state} link:{fabric.link_name(link)}")

    def do_switch(self, line: str) -> None:
        """Stop a switch, so that all its links are down, or start it again: a fault.
        Usage: switch NAME stop|start"""
        name, state = self._words("switch", line, "NAME stop|start", 2)
        self._one_of("switch", state, ("stop", "start"))
        if name in self._hosts:
            raise InputError(f"{name} is a host, not a switch. Its NIC is {self._gpu(name)}.")
        self._node(name)
        self.lab.fault(f"{'down' if state == 'stop' else 'up'} switch:{name}")

    # -- what the lab knows ----------------------------------------------------------------------------
    def do_health(self, _line: str) -> None:
        """Show the measured health of all rails and domains, and of links below 1.
        Usage: health"""
        health = self.lab.health()
        rows = dict(health.elements)
        low = {name: score for name, score in (rows | dict(health.links)).items() if score < 1}
        shown = rows if len(rows) <= SHOWN_SCORES else {}
        for name, score in (shown | low).items():
            output(f"{name:<16} {score:.2f}\n")
        if not low:
            output(f"all {len(health.links)} links are at 1.00\n")

    def do_routes(self, line: str) -> None:
        """Show the paths in use between two GPUs, and why the router takes them.
        Usage: routes SRC DST, such as routes g0.0 g1.1"""
        src, dst = (self._gpu(name) for name in self._words("routes", line, "SRC DST", 2))
        pair = self.lab.routes(src, dst)
        for path in pair.paths:
            nodes = [hop.link.partition("->")[0] for hop in path.hops]
            share = "" if len(pair.paths) == 1 else f", {path.weight:.0%} of the packets"
            output(f"{' -> '.join([*nodes, dst])}    score {path.score:.2f}{share}\n")
        if not pair.paths:
            output(f"no path from {src} to {dst}\n")
        elif pair.why:
            output(f"why: {pair.why}\n")

    def do_run(self, line: str) -> None:
        """Run a collective or workload, and show its table.
        Usage: run all-reduce 1M iterations=4 faults='at=iter:2 degrade rail:1 to=20%'"""
        keys: dict[str, Any] = {}
        for word in shlex.split(line):
            name, equals, value = word.partition("=")
            if equals:
                keys[name] = value
            elif "size" not in keys:
                key = "workload" if word in self.lab.registers["workload"] else "collective"
                keys["size" if keys.keys() & {"collective", "workload"} else key] = word
            else:
                raise InputError(f"run takes a collective, a size, and key=value (got {word!r}).")
        self._waits = True
        try:
            result: RunResult = self.lab.run(**keys)
        finally:
            self._waits = False
        output(self._report(result) or "")
        self.failed |= result.wrong != 0 or result.fidelity.verdict == "invalid"

    def do_EOF(self, line: str) -> Any:
        """Exit"""
        return super().do_EOF(line) if self.isatty() else self.do_exit(line)

    # -- completion ------------------------------------------------------------------------------------
    def completenames(self, text: str, *ignored: Any) -> list[str]:
        return [*super().completenames(text, *ignored), *self._completion.of([], text)]

    def completedefault(self, text: str, line: str, begin: int, _end: int) -> list[str]:
        return self._completion.of(line[:begin].split(), text)

    # -- names and words -------------------------------------------------------------------------------
    def _node(self, name: str) -> None:
        if name not in self.mn:
            raise InputError(f"there is no node {name!r}.{did_you_mean(name, self.mn)} `nodes` lists all.")

    def _gpu(self, name: str) -> str:
        """The GPU of a host; any other name as it is."""
        return self.fabric.node_name(self._hosts[name]) if name in self._hosts else name

    def _words(self, command: str, line: str, usage: str, count: int) -> list[str]:
        words = line.split()
        if len(words) != count:
            raise InputError(f"{command} takes {usage} (got {line!r}).")
        return words

    def _one_of(self, command: str, word: str, choices: tuple[str, ...]) -> None:
        if word not in choices:
            raise InputError(f"{command} takes {' or '.join(choices)} (got {word!r}).")

    def _as_python(self, line: str) -> str:
        """Node names that are no Python names, such as h0.0, become net['h0.0']; not inside quotes."""
        names = "|".join(re.escape(name) for name in list(self.mn) if "." in name)
        word = rf"('[^']*'|\"[^\"]*\")|(?<![\w.])({names})(?!\w)"
        return re.sub(word, lambda match: match[1] or f"net['{match[2]}']", line)
