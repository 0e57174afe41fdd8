"""Campaigns of kills: a study on two Dask workers whose parts are killed at drawn moments, until it is done.

    python -m railweave.bench.sweep_kills --campaigns 100 --seed 1

Each campaign kills workers, the scheduler and the client, starts them again, and in the end compares the rows
with those of this machine alone: each point once, with the same figures. Moments and limits are seconds in
which this machine kept neither client nor nodes waiting for a processor, so that on a busy machine no kill
comes before anything has begun, and no slow client is taken for one that hangs.
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
WAKE_S = 0.1
"""Seconds between two samples of how long processes waited."""
COMMAND = [sys.executable, "-c", "from railweave.framework.cli import main; main()", "sweep", "kills.yaml"]
MOST_S = 4.0
"""Undisturbed seconds after the start of the client to a kill, at most; a later one would change nothing."""
HANGS_S = 120.0
"""Undisturbed seconds after which a client that still runs hangs: eight times what it waits for a scheduler
that is gone (`on_dask.ANSWERS_S`), and more than ten times the study's."""
MOST_STARTS = 20


def _waited_s(pid: int) -> float:
    """Seconds for which a thread of a process was ready to run and had no processor, of the one that waited
    longest; 0 once it is gone. Source: Linux, Documentation/scheduler/sched-stats.rst,
    `/proc/<pid>/schedstat`."""
    try:
        tasks = [(task / "schedstat").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return max((int(waited) for _, waited, _ in tasks), default=0) / 1e9


def _ended(client: subprocess.Popen[str], nodes: Nodes, undisturbed_s: float) -> bool:
    """Whether the client ends before that time; of each interval, the part counts in which none of the
    processes waited for a processor. The kernel adds a wait when it is over, so that an interval may count
    less than nothing."""
    counted_s, before = 0.0, {pid: _waited_s(pid) for pid in (client.pid, *nodes.pids)}
    while counted_s < undisturbed_s:
        began = time.monotonic()
        try:
            client.wait(WAKE_S)
            return True
        except subprocess.TimeoutExpired:
            now = {pid: _waited_s(pid) for pid in (client.pid, *nodes.pids)}
        waited_s = max(0.0, *(now[pid] - before.get(pid, 0.0) for pid in now))
        counted_s += time.monotonic() - began - waited_s
        before = now
    return False


def campaign(folder: Path, draw: random.Random) -> Counter[str]:
    """How often what was killed. Raises AssertionError where the client neither ends well nor says why."""
    killed: Counter[str] = Counter()
    nodes = Nodes(folder)
    try:
        for start in range(MOST_STARTS):
            with (folder / "errors").open("w") as errors_file:
                client = subprocess.Popen(
                    [*COMMAND, "--on", nodes.address], cwd=folder, stdout=subprocess.DEVNULL,
                    stderr=errors_file, text=True,
                )  # fmt: skip
            if start < 4:
                _ended(client, nodes, draw.uniform(0.5, MOST_S))
                victim = draw.choice(("worker", "worker", "client", "scheduler"))
                killed[victim] += 1
                if victim == "client":
                    client.kill()
                elif victim == "scheduler":
                    nodes.kill(0)
                else:
                    nodes.kill(draw.choice((1, 2)))
            ended = _ended(client, nodes, HANGS_S)
            errors = (folder / "errors").read_text()
            if not ended:
                client.kill()
                client.wait()
                raise AssertionError(f"the client hangs: {errors}")
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
