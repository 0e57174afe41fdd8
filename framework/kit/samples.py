"""Fabrics to check a router on: small ones of every kind it serves, and one of 1,024 GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railweave.framework.errors import RailweaveError
from railweave.framework.hookspecs import Router
from railweave.framework.kit.report import Finding
from railweave.framework.model import Fabric
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers

Options = Mapping[str, object]

SMALL: Mapping[str, Sequence[Options]] = {
    "rail-only": (
        {"domains": 2, "rails": 2}, {"domains": 3, "rails": 4}, {"domains": 1, "rails": 3},
        {"domains": 4, "rails": 1},
    ),
    "rail-optimised": ({"domains": 2, "rails": 3, "spines": 2}, {"domains": 3, "rails": 2, "spines": 1}),
    "ring": (
        {"nodes": 2}, {"nodes": 7, "wavelengths": 2}, {"nodes": 8}, {"nodes": 5, "directions": 1},
    ),
    "torus": ({"shape": "5"}, {"shape": "2x3"}, {"shape": "4x4"}, {"shape": "3x4x3"}, {"shape": "2x2x2"}),
    "twisted-torus": ({"shape": "4x4x8"},),
}  # fmt: skip
"""Even and odd sizes, the smallest and lopsided ones. A topology of a plugin says its own as `examples`."""

LARGE: Mapping[str, Options] = {
    "rail-only": {"domains": 32, "rails": 32},
    "rail-optimised": {"domains": 32, "rails": 32, "spines": 16},
    "ring": {"nodes": 1024},
    "torus": {"shape": "8x8x16"},
    "twisted-torus": {"shape": "8x8x16"},
}

MOST_GPUS = 256
"""A topology without examples is taken as it is by default, if that is not larger."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A fabric and what to call it: `rail-only (domains 2, rails 2)`."""

    name: str
    fabric: Fabric


def serves(router: Router, kind: str) -> bool:
    """Whether a router serves a kind of fabric; `*` or nothing said is all of them."""
    return not router.serves or "*" in router.serves or kind in router.serves


def small(registers: Registers) -> tuple[list[Sample], list[Finding]]:
    """Small fabrics of every registered topology, and what is wrong with those that cannot be built."""
    samples: list[Sample] = []
    wrong: list[Finding] = []
    for name, topology in registers["topology"].items():
        examples = SMALL.get(name) or tuple(getattr(topology, "examples", ())) or ({},)
        for options in examples:
            try:
                sample = built(registers, name, options)
            except RailweaveError as error:
                wrong.append(Finding(called(name, options), str(error)))
                continue
            if options or sample.fabric.n_gpus <= MOST_GPUS:
                samples.append(sample)
    return samples, wrong


def large(registers: Registers, kinds: set[str]) -> list[Sample]:
    """One fabric of 1,024 GPUs of each of these kinds that we know how to ask for."""
    found = (built(registers, name, LARGE[name]) for name in registers["topology"] if name in LARGE)
    return [sample for sample in found if sample.fabric.kind in kinds]


def built(registers: Registers, name: str, options: Options) -> Sample:
    """Raises ExperimentError or FabricError where there is no such fabric."""
    topology = registers["topology"][name]
    return Sample(
        called(name, options), topology.build(resolve(f"topology {name}", topology.parameters, options))
    )


def called(name: str, options: Options) -> str:
    inside = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"{name} ({inside})" if inside else name
