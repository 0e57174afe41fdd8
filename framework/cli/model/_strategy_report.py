"""What `railweave model iteration` makes of the options of a GPU, and prints: the strategies it ranked."""

from dataclasses import asdict, dataclass

from railweave.framework.cli._context import table
from railweave.framework.papers.training.clusters import Cluster, GpuKind, gpu_named
from railweave.framework.papers.training.iteration import Calibration
from railweave.framework.papers.training.models import LanguageModel, hardware_utilisation
from railweave.framework.papers.training.strategy_search import StrategySearch
from railweave.framework.parameters.units import time

DEGREES = ("t", "p", "d", "b", "v", "th", "ph", "dh")
HEAD = (*DEGREES, "time", "bubble", "compute", "network", "sync", "memory", "HFU")


def gpu_of(
    name: str,
    tflops: float | None,
    domain_bps: float | None,
    rail_bps: float | None,
    memory_bytes: int | None,
) -> GpuKind:
    """A preset of a GPU with the values of options, None where the preset's hold. Raises ExperimentError for
    an unknown preset."""
    return gpu_named(
        name,
        flops_per_s=None if tflops is None else tflops * 1e12,
        domain_bps=domain_bps,
        rail_bps=rail_bps,
        memory_bytes=memory_bytes,
    )


@dataclass(frozen=True, slots=True)
class StrategyReport:
    """The fastest strategies of a search, as JSON and as a table."""

    model: LanguageModel
    cluster: Cluster
    batch: int
    calibration: Calibration
    ranking: StrategySearch

    def document(self) -> dict[str, object]:
        """The content of the JSON."""
        return {
            "model": asdict(self.model) | {"parameters": self.model.parameters},
            "cluster": asdict(self.cluster),
            "batch": self.batch,
            "calibration": asdict(self.calibration),
            "tried": self.ranking.tried,
            "fitting": self.ranking.fitting,
            "strategies": [
                {
                    **asdict(ranked.strategy),
                    "microbatches": self.batch // (ranked.strategy.d * ranked.strategy.b),
                    **asdict(ranked.time),
                    "total_s": ranked.time.total_s,
                    "memory_bytes": ranked.memory_bytes,
                    "hardware_utilisation": self._utilisation(ranked.time.total_s),
                }
                for ranked in self.ranking.best
            ],
        }

    def text(self) -> str:
        """What was searched in two lines, and a row for each strategy."""
        cells = []
        for ranked in self.ranking.best:
            strategy, spent = ranked.strategy, ranked.time
            cells.append(
                (
                    *(getattr(strategy, degree) for degree in DEGREES),
                    time(spent.total_s),
                    time(spent.bubble_compute_s + spent.bubble_network_s),
                    *map(time, (spent.steady_compute_s, spent.steady_network_s, spent.sync_s)),
                    f"{ranked.memory_bytes / 1e9:.1f} GB",
                    f"{100 * self._utilisation(spent.total_s):.1f} %",
                )
            )
        return (
            f"{self.model.name}: {self.model.parameters / 1e9:.4g} billion parameters on {self.cluster.gpus} "
            f"{self.cluster.gpu.name} in HB domains of {self.cluster.domain}, batch {self.batch}\n"
            f"{self.ranking.tried} strategies, {self.ranking.fitting} fit into memory; the fastest:\n\n"
            f"{table(HEAD, cells)}"
        )

    def _utilisation(self, seconds: float) -> float:
        return hardware_utilisation(
            self.model, self.batch, self.cluster.gpus, self.cluster.gpu.flops_per_s, seconds
        )
