"""The cluster that a model is trained on: GPUs, HB domains and their rates, with presets."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from railweave.framework.errors import ExperimentError


@dataclass(frozen=True, slots=True)
class GpuKind:
    """One kind of GPU: peak operations per second, bytes per second and direction into the HB domain (C_F)
    and onto the rail (C_S), and memory in bytes."""

    name: str
    flops_per_s: float
    domain_bytes_per_s: float
    rail_bytes_per_s: float
    memory_bytes: float


GPUS: Mapping[str, GpuKind] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            GpuKind("a100", 312e12, 300e9, 25e9, 80 * 2.0**30),
            GpuKind("h100", 989e12, 450e9, 50e9, 80 * 2.0**30),
        )
    }
)
"""Dense bf16; NVLink per direction (vendors quote both together); NICs of 200 and 400 Gb/s."""


def gpu_named(
    name: str,
    *,
    flops_per_s: float | None = None,
    domain_bps: float | None = None,
    rail_bps: float | None = None,
    memory_bytes: float | None = None,
) -> GpuKind:
    """The preset, with the values that are not None in place of its own; rates in bit/s.

    Raises ExperimentError that lists the presets.
    """
    if name not in GPUS:
        raise ExperimentError(f"there is no GPU {name!r}; known are: {', '.join(GPUS)}.")
    preset = GPUS[name]
    return GpuKind(
        name,
        preset.flops_per_s if flops_per_s is None else flops_per_s,
        preset.domain_bytes_per_s if domain_bps is None else domain_bps / 8,
        preset.rail_bytes_per_s if rail_bps is None else rail_bps / 8,
        preset.memory_bytes if memory_bytes is None else memory_bytes,
    )


@dataclass(frozen=True, slots=True)
class Cluster:
    """N GPUs in HB domains of K. A memory of 0 bytes means no limit."""

    gpus: int
    domain: int
    gpu: GpuKind

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.domain < 1:
            raise ExperimentError(f"{self.gpus} GPUs in HB domains of {self.domain}: both must be 1 or more.")
        if self.gpus % self.domain:
            raise ExperimentError(
                f"{self.gpus} GPUs do not fill HB domains of {self.domain} (constraints 11 to 16). "
                "Choose a number of GPUs that is a multiple of the domain, or smaller domains."
            )
        rates = self.gpu.flops_per_s, self.gpu.domain_bytes_per_s, self.gpu.rail_bytes_per_s
        if not all(0 < rate < inf for rate in rates) or not 0 <= self.gpu.memory_bytes < inf:
            raise ExperimentError(
                f"GPU {self.gpu.name}: operations and rates must be positive, memory 0 or more."
            )
