"""Who sent how much to whom in an iteration: traffic.csv, and as a heatmap, traffic.svg and traffic.png."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railweave.framework.hookspecs import Report
from railweave.framework.parameters import Parameter, Value

WHEN = ("workloads", "always", "never")


class TrafficHeatmap(Report):
    """The bytes of one iteration of the largest size, (n_gpus, n_gpus), [src, dst], as emulated."""

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
        from railweave.framework.registry import load_plugins
        from railweave.framework.training.heatmap import heatmap_png, heatmap_svg

        plan = from_document(experiment, load_plugins())
        sent_bytes = np.sum([job.on_gpus(job.schedule).matrix() for job in plan.each], axis=0)
        domain = plan.fabric.groups[0].shape[-1]
        name = f"{len(plan.jobs)} jobs" if plan.jobs else plan.experiment.traffic.name
        title = f"{name}, bytes of one iteration as emulated"
        table = io.StringIO()
        np.savetxt(table, sent_bytes, "%.0f", ",")
        to = Path(directory)
        (to / "traffic.csv").write_text(table.getvalue())
        (to / "traffic.svg").write_text(heatmap_svg(sent_bytes, domain, title))
        (to / "traffic.png").write_bytes(heatmap_png(sent_bytes, domain))
