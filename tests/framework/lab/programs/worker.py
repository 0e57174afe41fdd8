"""As pid 1 of private namespaces: lets the launcher run a command on some hosts without a fabric, and prints
as JSON how that ended: COUNT OUTPUT-DIRECTORY WORD..."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from railweave.framework.lab.programs.rank_space import FOLDER, HOSTS
from railweave.framework.model.events import IterationMarked, Printed, ProgramEnded
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.namespaces import NetNamespace, mount


def main() -> None:
    count, output, *command = sys.argv[1:]
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    FOLDER.mkdir(parents=True)
    hosts = [(NetNamespace.create(f"h{i}").path, f"h{i}-0", f"10.{i}.0.1") for i in range(int(count))]
    HOSTS.write_text("127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for _, name, ip in hosts))
    launcher = ChildProcess("the launcher", "railweave.framework.lab.programs.launcher")
    launcher.send(
        {
            "hosts": hosts, "launcher": "direct", "command": command, "directory": "/tmp",
            "environment": dict(os.environ), "output": f"{output}/" if output else None,
            "folder": str(FOLDER), "port": 29500,
        }
    )  # fmt: skip
    marks, shown = 0, 0
    while not isinstance(event := launcher.channel.receive(), ProgramEnded):
        marks += isinstance(event, IterationMarked)
        shown += len(event.text) if isinstance(event, Printed) else 0
    status = launcher.stop(4.0)
    ended = {
        "failed": event.failed,
        "outcomes": {str(o.rank): [o.status, o.printed_bytes, o.output] for o in event.outcomes},
        "marks": marks,
        "shown": shown,
        "status": status,
        "left": sorted(
            (entry / "cmdline").read_text().replace("\0", " ")
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) != os.getpid()
        ),
    }
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
