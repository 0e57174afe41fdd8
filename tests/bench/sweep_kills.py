"""Campaigns of kills: a study on two Dask workers whose parts are killed at drawn moments, until it is done.

    python -m railweave.bench.sweep_kills --campaigns 100 --seed 1

Each campaign kills workers, the scheduler and the client, starts them again, and in the end compares the rows
with those of this machine alone: each point once, with the same figures.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from railweave.bench.sweep import Nodes
from railweave.framework.studies.ledger import rows

SWEEP = """
experiment: {engine: fluid, domains: 2, rails: 4, size: 256K, iterations: 4}
axes:
  router: [hscore, spray]
  faults: ["at=iter:2 degrade rail:1 to=20%", "at=iter:2 degrade rail:1 to=60%"]
seeds: 25
"""
COMMAND = [sys.executable, "-c", "from railweave.framework.cli import main; main()", "sweep", "kills.yaml"]
MOST_S = 4.0
"""Seconds from the start of the client to a kill, at most; one that comes too late changes nothing."""
MOST_STARTS = 20


def campaign(folder: Path, draw: random.Random) -> Counter[str]:
    """How often what was killed. Raises AssertionError where the client neither ends well nor says why."""
    killed: Counter[str] = Counter()
    nodes = Nodes(folder)
    try:
        for start in range(MOST_STARTS):
            client = subprocess.Popen(
                [*COMMAND, "--on", nodes.address], cwd=folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            if start < 4:
                time.sleep(draw.uniform(0.5, MOST_S))
                victim = draw.choice(("worker", "worker", "client", "scheduler"))
                killed[victim] += 1
                if victim == "client":
                    client.kill()
                elif victim == "scheduler":
                    nodes.kill(0)
                else:
                    nodes.kill(draw.choice((1, 2)))
            _, errors = client.communicate(timeout=120)
            assert client.returncode in (0, 2, -9), errors
            if client.returncode == 2:
                assert "the Dask scheduler" in errors or "no Dask scheduler answers" in errors, errors
            if client.returncode == 0:
                return killed
            nodes.revive()
        raise AssertionError(f"not done after {MOST_STARTS} starts")
    finally:
        nodes.end()


def compared(ours: Path, theirs: Path) -> None:
    """Raises AssertionError unless both have the same rows, each once."""
    lines = [json.loads(line)["point"] for line in ours.read_text().splitlines()[1:]]
    assert len(lines) == len({*lines}), "a point has two rows"
    kept = [rows(path, "kills", None) for path in (ours, theirs)]
    plain: list[dict[str, Any]] = [
        {point: {**row, "seconds": 0} for point, row in some.items()} for some in kept
    ]
    assert plain[0] == plain[1], "rows differ"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--campaigns", type=int, default=10)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    total: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        (Path(folder) / "kills.yaml").write_text(SWEEP)
        subprocess.run(COMMAND, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        reference = Path(folder, "studies", "kills", "rows.jsonl")
        for number in range(chosen.campaigns):
            place = Path(folder, str(number))
            place.mkdir()
            (place / "kills.yaml").write_text(SWEEP)
            total += campaign(place, random.Random(f"{chosen.seed} {number}"))
            compared(place / "studies" / "kills" / "rows.jsonl", reference)
            print(f"{number + 1}/{chosen.campaigns}: killed so far {dict(total)}", flush=True)
    print("nothing lost, nothing counted twice")


if __name__ == "__main__":
    main()
