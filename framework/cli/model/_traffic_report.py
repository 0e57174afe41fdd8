"""What `railweave model traffic` prints and writes."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from railweave.framework.cli._context import table
from railweave.framework.errors import ExperimentError
from railweave.framework.papers.training.placement import Placement
from railweave.framework.papers.training.traffic_matrix import Demands, TrainingJob

BETWEEN = {"tp": "in a domain", "pp": "on a rail, or in a domain", "dp": "on a rail, or in a domain"}
"""Which GPUs exchange the bytes of each kind of parallelism."""


@dataclass(frozen=True)
class TrafficReport:
    """What a job, `placed` on a fabric of `domains` x `rails` GPUs, sends in an iteration."""

    job: TrainingJob
    placed: Placement
    traffic: Demands
    domains: int
    rails: int

    @property
    def caption(self) -> str:
        """The degrees of parallelism, and the share of each in all bytes."""
        degrees = f"tensor {self.placed.t}, pipeline {self.placed.p}, data {self.placed.d}"
        shares = ", ".join(f"{kind} {100 * share:.3g} %" for kind, share in self.traffic.shares.items())
        return f"{degrees}, {self.job.m} microbatches: {shares}"

    @cached_property
    def busiest_bytes(self) -> float:
        """What the GPU sends that sends most."""
        return float(self.traffic.sent.max())

    def document(self) -> dict[str, object]:
        """The content of the JSON."""
        return {
            "model": self.job.model.name,
            "asked": {"tp": self.job.t, "pp": self.job.p, "dp": self.job.d},
            "placed": {"tp": self.placed.t, "pp": self.placed.p, "dp": self.placed.d},
            "microbatches": self.job.m,
            "domains": self.domains,
            "rails": self.rails,
            "shares": dict(self.traffic.shares),
            "total_bytes": self.traffic.total_bytes,
            "busiest_gpu_bytes": self.busiest_bytes,
            "silent_pairs": self.traffic.silent_pairs,
        }

    def text(self) -> str:
        """The job and its place in a line or two, a row for each kind of parallelism, and a summary."""
        wanted, placed = (self.job.t, self.job.p, self.job.d), (self.placed.t, self.placed.p, self.placed.d)
        n_gpus, n_ranks = self.domains * self.rails, int(np.prod(wanted))
        smaller = f"{n_ranks} ranks on {n_gpus} GPUs: groups are made smaller\n" if placed != wanted else ""
        total_bytes = self.traffic.total_bytes
        rows = [
            (kind, f"{share * total_bytes:.4g}", f"{100 * share:.3f} %", BETWEEN[kind])
            for kind, share in self.traffic.shares.items()
        ]
        return (
            f"{smaller}{self.job.model.name} on {self.domains} HB domains of {self.rails}: {self.caption}\n\n"
            f"{table(('kind', 'bytes', 'share', 'between GPUs'), rows)}\n\n"
            f"the busiest GPU sends {self.busiest_bytes:.4g} bytes; "
            f"{100 * self.traffic.silent_pairs:.2f} % of all pairs exchange nothing"
        )


@dataclass(frozen=True, slots=True)
class TrafficFiles:
    """Where to write the matrix of bytes: as heatmaps and as CSV, None for what is not wanted."""

    svg: Path | None
    png: Path | None
    matrix: Path | None

    def write(self, report: TrafficReport) -> None:
        """Raises ExperimentError for a file that cannot be written."""
        if not (self.svg or self.png or self.matrix):
            return
        from railweave.framework.papers.training.heatmap import heatmap_png, heatmap_svg

        matrix_bytes, title = report.traffic.matrix(), f"PTD-P traffic of {report.job.model.name}"
        try:
            if self.svg:
                self.svg.write_text(heatmap_svg(matrix_bytes, report.rails, title, report.caption))
            if self.png:
                self.png.write_bytes(heatmap_png(matrix_bytes, report.rails))
            if self.matrix:
                np.savetxt(self.matrix, matrix_bytes, "%.0f", ",")
        except OSError as error:
            raise ExperimentError(f"{error.filename} cannot be written: {error.strerror}.") from error
