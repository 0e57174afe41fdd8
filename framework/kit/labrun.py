"""A short real run of a router, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from railweave.framework.kit.report import Finding, Outcome
from railweave.framework.kit.samples import called
from railweave.framework.kit.subject import Subject

SHAPES: Mapping[str, Mapping[str, object]] = {
    "rail-only": {"domains": 2, "rails": 2},
    "rail-optimised": {"domains": 2, "rails": 2, "spines": 2},
    "ring": {"nodes": 4},
    "torus": {"shape": "3x3"},
}
"""A twisted torus has 128 GPUs at least: too many for a short run."""

WITHIN_S = 300
LAST_LINES = 12


def on_the_lab(subject: Subject, kinds: Sequence[str]) -> Outcome:
    """Two iterations of a ring all-reduce on a small fabric of each kind; real packets, every element compared."""
    chosen = [kind for kind in kinds if kind in SHAPES]
    if not chosen:
        return Outcome("on the lab", "skipped", "no fabric small enough")
    wrong = []
    for kind in chosen:
        with tempfile.TemporaryDirectory(prefix="railweave-kit-") as directory:
            done = subprocess.run(
                command(subject, kind, Path(directory) / "run"),
                capture_output=True, text=True, timeout=WITHIN_S, check=False,
            )  # fmt: skip
        if done.returncode:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
            wrong.append(
                Finding(called(kind, SHAPES[kind]), f"the run ends with exit code {done.returncode}:\n{said}")
            )
    return Outcome.of("on the lab", wrong, f"2 iterations on {', '.join(chosen)}")


def command(subject: Subject, kind: str, out: Path) -> list[str]:
    """The `railweave run` of one kind of fabric."""
    options = {
        **{f"topology.{k}": v for k, v in SHAPES[kind].items()},
        **{f"router.{k}": v for k, v in subject.options.items()},
    }
    return [
        sys.executable, "-c", "from railweave.framework.cli import main; main(prog_name='railweave')",
        "run", "--topology", kind, "--router", subject.name, "--collective", "ring-all-reduce",
        "--size", "64K", "--iterations", "2", "--fault", "none", "--quiet", "--out", str(out),
        *(word for key, value in options.items() for word in ("--set", f"{key}={value}")),
    ]  # fmt: skip
