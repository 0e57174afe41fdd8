"""Parameters and operations against the published models."""

from __future__ import annotations

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.training.iteration import TABLE_4
from railweave.framework.papers.training.models import (
    MODELS,
    LanguageModel,
    hardware_utilisation,
    model_named,
)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("megatron")])
def test_parameters_give_the_model_its_name(name: str) -> None:
    """Narayanan et al. (SC '21), table 1, call their models by billions of parameters."""
    billions = float(name.removeprefix("megatron-").removesuffix("b"))
    assert MODELS[name].parameters / 1e9 == pytest.approx(billions, abs=0.06 if billions < 1000 else 0.6)


@pytest.mark.parametrize(
    ("name", "billions"), [("gpt-22b", 22), ("gpt-175b", 175), ("gpt-530b", 530), ("gpt-1t", 1008)]
)
def test_round_names_are_near(name: str, billions: float) -> None:
    """Korthikanti et al., table 3."""
    assert MODELS[name].parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_operations_of_an_iteration() -> None:
    """R-O4: TFLOP of the 22B model at batch 4, by Korthikanti et al., equations 7 and 8."""
    model = MODELS["gpt-22b"]
    assert model.hardware_flops(4) / 1e12 == pytest.approx(1202.934, abs=0.001)
    without_recomputation = model.gemm_flops(4) + model.logit_flops(4) + model.attention_flops(4, 12)
    assert without_recomputation / 1e12 == pytest.approx(1143.561, abs=0.001)


@pytest.mark.parametrize(("row", "percent"), list(enumerate([43.81, 52.77, 56.96, 55.04, 57.01])))
def test_utilisation_of_measured_times(row: int, percent: float) -> None:
    """R-O5: on A100s of 312 TFLOP/s, from the measured times of table 4."""
    case = TABLE_4[row]
    found = hardware_utilisation(MODELS[case.model], case.batch, case.gpus, 312e12, case.measured_s)
    assert 100 * found == pytest.approx(percent, abs=0.005)


def test_unknown_models_are_refused_with_a_hint() -> None:
    with pytest.raises(ExperimentError, match="Did you mean gpt-175b"):
        model_named("gpt-175")


@pytest.mark.parametrize("shape", [(0, 8, 1), (3, 8, 1), (1, 8, 0)])
def test_shapes_that_cannot_exist(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ExperimentError):
        LanguageModel("own", *shape)
