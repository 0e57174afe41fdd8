"""A short real run of a router, in a process of its own."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from railweave.framework.kit.report import Outcome, Violation
from railweave.framework.kit.samples import Sample
from railweave.framework.kit.subject import Subject

MOST_GPUS = 16
WITHIN_S = 300
LAST_LINES = 12


def on_the_lab(subject: Subject, samples: Sequence[Sample]) -> Outcome:
    """Two iterations of a ring all-reduce on the first example of each kind that has up to `MOST_GPUS` GPUs;
    real packets, every element compared."""
    chosen = {s.fabric.kind: s for s in reversed(samples) if s.fabric.n_gpus <= MOST_GPUS}
    if not chosen:
        return Outcome("on the lab", "skipped", "no fabric small enough")
    wrong = []
    for sample in chosen.values():
        with tempfile.TemporaryDirectory(prefix="railweave-kit-") as directory:
            done = subprocess.run(
                command(subject, sample, Path(directory) / "run"),
                capture_output=True, text=True, timeout=WITHIN_S, check=False,
            )  # fmt: skip
        if done.returncode:
            output = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
            wrong.append(Violation(sample.name, f"the run ends with exit code {done.returncode}:\n{output}"))
    return Outcome.of("on the lab", wrong, f"2 iterations on {', '.join(sorted(chosen))}")


def command(subject: Subject, sample: Sample, out: Path) -> list[str]:
    """The `railweave run` of one fabric."""
    options = {"topology": sample.options, "router": subject.options}
    return [
        sys.executable, "-c", "from railweave.framework.cli import main; main(prog_name='railweave')",
        "run", "--topology", sample.topology, "--router", subject.name, "--collective", "ring-all-reduce",
        "--size", "64K", "--iterations", "2", "--fault", "none", "--quiet", "--out", str(out),
        *(f"--set={kind}.{key}={value}" for kind in options for key, value in options[kind].items()),
    ]  # fmt: skip
