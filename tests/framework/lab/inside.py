"""Runs a scene (a function of scenes.py) as pid 1 of private namespaces and gives back what it returned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from railweave.framework.lab.sandbox import unshare_command

SCENES = Path(__file__).with_name("scenes.py")


def inside(scene: str, *arguments: object) -> Any:
    done = subprocess.run(
        [*unshare_command(), sys.executable, "-W", "ignore", str(SCENES), scene, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
