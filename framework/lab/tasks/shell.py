"""`railweave shell`: a lab with its routes installed, and Mininet's prompt in it."""

import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.names import host_name
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.switching.host_addresses import address_hosts
from railweave.framework.lab.tasks.run import lab_task
from railweave.framework.model import Fabric
from railweave.framework.model.addressing import ipv4, ipv4_text
from railweave.framework.model.events import Note, PhaseStarted, RunEvent
from railweave.framework.processes.namespaces import MS_BIND, mount

ETC_HOSTS = Path("/etc/hosts")


def shell(plan: Plan) -> None:
    """Open the prompt for this plan's fabric, and return once it was left and the lab is gone."""
    # Ctrl-C belongs to the prompt. The lab would inherit SIG_IGN; it does not inherit a handler.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        in_lab("shell", {"document": plan.document()}, lambda _: None, terminal=True)
    finally:
        signal.signal(signal.SIGINT, before)


def task(message: Mapping[str, Any], _emit: Callable[[RunEvent], None]) -> None:
    """Bring the fabric up, give its hosts addresses and names, and hand the terminal to Mininet."""
    with lab_task(message, _print) as session:
        lab = session.engine.lab
        address_hosts(lab)
        name_hosts(lab.fabric)
        _print(Note("hosts h<gpu>, switches as in `railweave topo show`; try: h0.0 ping -c2 h1.0, then exit"))
        prompt_class()(lab.net)


def prompt_class() -> type:
    """The class of Mininet's prompt, except that it knows names such as h0.0 and outlives what its commands
    raise. A function makes it, for Mininet is imported inside the lab alone."""
    from mininet.cli import CLI
    from mininet.log import error

    class Prompt(CLI):  # type: ignore[misc]
        prompt = "railweave> "
        identchars = CLI.identchars + "."  # so that h0.0 is one word

        def onecmd(self, line: str) -> Any:
            command = line.strip().partition(" ")[0]
            try:
                return super().onecmd(self._as_python(line) if command in ("py", "px") else line)
            except (Exception, SystemExit) as failure:  # noqa: BLE001 - Mininet's commands raise and exit as they like
                error(f"*** {type(failure).__name__}: {failure}\n")
                return False

        def _as_python(self, line: str) -> str:
            """Node names that are no Python names, such as h0.0, become net['h0.0']; not inside quotes."""
            names = "|".join(re.escape(name) for name in list(self.mn) if "." in name)
            word = rf"('[^']*'|\"[^\"]*\")|(?<![\w.])({names})(?!\w)"
            return re.sub(word, lambda match: match[1] or f"net['{match[2]}']", line)

    return Prompt


def _print(event: RunEvent) -> None:
    if isinstance(event, PhaseStarted | Note) and event.text:
        print(f"* {event.text}", flush=True)  # noqa: T201 - this process owns the terminal


def name_hosts(fabric: Fabric) -> None:
    """Let programs resolve the names of hosts: in the lab, whose mounts are private, another file is
    /etc/hosts."""
    path = Path("/run/railweave/hosts")
    lines = [f"{ipv4_text(ipv4(fabric, gpu))} {host_name(fabric, gpu)}\n" for gpu in range(fabric.n_gpus)]
    path.write_text(ETC_HOSTS.read_text() + "".join(lines))
    mount(str(path), str(ETC_HOSTS), "", MS_BIND)
