"""Who sent how much to whom in an iteration: traffic.csv, and as a heatmap, traffic.svg and traffic.png."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railweave.framework.hookspecs import Report
from railweave.framework.parameters import Parameter, Value

MOST_GPUS = 1024
"""GPUs up to which the whole matrix and its pictures are written; of more it has millions of cells."""
WHEN = ("workloads", "always", "never")


class TrafficHeatmap(Report):
    """The bytes of one iteration of the largest size, (n_gpus, n_gpus), [src, dst], as emulated; of more than
    1,024 GPUs a line `src,dst,bytes` for each pair that sends, and no picture."""

    summary = "traffic.csv, traffic.svg and traffic.png: bytes between GPUs in an iteration"
    parameters: tuple[Parameter, ...] = (
        Parameter("when", WHEN[0], "text", "for which runs it is written", choices=WHEN),
    )

    def __init__(self, when: str = WHEN[0]) -> None:
        self._when = when

    def configured(self, options: Mapping[str, Value]) -> "TrafficHeatmap":
        return TrafficHeatmap(str(options["when"]))

    def write(self, result: Mapping[str, Any], directory: str) -> None:
        experiment = result["experiment"]
        if self._when == "never" or (self._when == "workloads" and not experiment.get("workload")):
            return

        import numpy as np

        from railweave.framework.experiment.plan import from_document
        from railweave.framework.papers.training.heatmap import heatmap_png, heatmap_svg
        from railweave.framework.registry import load_plugins

        plan = from_document(experiment, load_plugins())
        n, domain, to = plan.fabric.n_gpus, plan.fabric.groups[0].shape[-1], Path(directory)
        pairs = [job.on_gpus(job.schedule).pairs() for job in plan.jobs]
        src, dst, amount = (np.concatenate(column) for column in zip(*pairs, strict=True))
        if n > MOST_GPUS:
            rows = np.stack((src, dst, amount), axis=1)
            np.savetxt(to / "traffic.csv", rows, "%d", ",", header="src,dst,bytes", comments="")
            return
        sent_bytes = np.bincount(src * n + dst, amount, n * n).reshape(n, n).astype(np.float64)
        np.savetxt(to / "traffic.csv", sent_bytes, "%.0f", ",")
        name = f"{len(plan.jobs)} jobs" if plan.named_jobs else plan.experiment.traffic.name
        title = f"{name}, bytes of one iteration as emulated"
        (to / "traffic.svg").write_text(heatmap_svg(sent_bytes, domain, title))
        (to / "traffic.png").write_bytes(heatmap_png(sent_bytes, domain))
