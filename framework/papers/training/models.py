"""Language models by name: their shapes, parameters and floating-point operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railweave.framework.errors import ExperimentError, did_you_mean

VOCABULARY = 51200
SEQUENCE = 2048
"""Vocabulary and sequence length of all named models (GPT as trained by Megatron-LM)."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A GPT: a attention heads, hidden size h, l layers, vocabulary V, sequence length s."""

    name: str
    heads: int
    hidden: int
    layers: int
    vocabulary: int = VOCABULARY
    sequence: int = SEQUENCE

    def __post_init__(self) -> None:
        for field in ("heads", "hidden", "layers", "vocabulary", "sequence"):
            if getattr(self, field) < 1:
                raise ExperimentError(f"model {self.name}: {field} must be 1 or more.")
        if self.hidden % self.heads:
            raise ExperimentError(f"model {self.name}: {self.heads} heads do not divide {self.hidden}.")

    @property
    def layer_parameters(self) -> int:
        """S_T = 12 h^2 + 13 h: parameters of one transformer layer, biases and norms included."""
        return 12 * self.hidden**2 + 13 * self.hidden

    @property
    def parameters(self) -> int:
        """P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)). Source: Narayanan et al., SC '21, section 5.1."""
        return self.layers * self.layer_parameters + (self.vocabulary + self.sequence) * self.hidden

    def gemm_flops(self, batch: int) -> float:
        """Matrix products of all layers in one iteration, without attention and logits: 72 B l s h^2."""
        return 72.0 * batch * self.layers * self.sequence * self.hidden**2

    def logit_flops(self, batch: int) -> float:
        """The output layer in one iteration: 6 B s h V."""
        return 6.0 * batch * self.sequence * self.hidden * self.vocabulary

    def attention_flops(self, batch: int, coefficient: float) -> float:
        """The attention core in one iteration: `coefficient` B l s^2 h (12 without recomputation)."""
        return coefficient * batch * self.layers * self.sequence**2 * self.hidden

    def hardware_flops(self, batch: int) -> float:
        """All operations of one iteration, attention recomputed: 72 B l s h^2 (1 + s/(3h) + V/(12 l h)).

        Source: Korthikanti et al., appendix A, equation 8.
        """
        return self.gemm_flops(batch) + self.logit_flops(batch) + self.attention_flops(batch, 24)


def hardware_utilisation(
    model: LanguageModel, batch: int, gpus: int, flops_per_s: float, seconds: float
) -> float:
    """HFU, a share: hardware operations of an iteration over what `gpus` could do in `seconds`."""
    return model.hardware_flops(batch) / (gpus * flops_per_s * seconds)


MODELS: Mapping[str, LanguageModel] = MappingProxyType(
    {
        m.name: m
        for m in (
            LanguageModel("gpt-22b", 64, 6144, 48),
            LanguageModel("gpt-175b", 96, 12288, 96),
            LanguageModel("gpt-530b", 128, 20480, 105),
            LanguageModel("gpt-1t", 160, 25600, 128),
            LanguageModel("megatron-18.4b", 48, 6144, 40),
            LanguageModel("megatron-39.1b", 64, 8192, 48),
            LanguageModel("megatron-76.1b", 80, 10240, 60),
            LanguageModel("megatron-145.6b", 96, 12288, 80),
            LanguageModel("megatron-310.1b", 128, 16384, 96),
            LanguageModel("megatron-529.6b", 128, 20480, 105),
            LanguageModel("megatron-1008b", 160, 25600, 128),
        )
    }
)
"""The models of the paper's table 4 (Korthikanti et al.) and of table 1 of Narayanan et al. (Megatron-LM)."""


def model_named(name: str) -> LanguageModel:
    """The model of this name; ExperimentError lists all names."""
    if name not in MODELS:
        raise ExperimentError(
            f"there is no model {name!r}; known are: {', '.join(MODELS)}.{did_you_mean(name, MODELS)}"
        )
    return MODELS[name]
