"""How much GPU memory a strategy needs."""

from dataclasses import dataclass
from math import inf

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float
from railweave.framework.training.models import LanguageModel
from railweave.framework.training.strategies import Candidates

STATE_BYTES = 18.0
"""Per parameter: the weight in 16 bits (2) and 32 (4), its gradient in 32 (4), two moments of Adam (8)."""


@dataclass(frozen=True)
class Memory:
    """Bytes per GPU of the first stage, which needs the most, (n,) each."""

    states: Float
    activations: Float

    @property
    def total(self) -> Float:
        return self.states + self.activations


def memory_bytes(model: LanguageModel, chosen: Candidates, state_bytes: float = STATE_BYTES) -> Memory:
    """Memory(p, t, d) of constraint 19, for every candidate; an estimate.

    Activations with sequence parallelism and selective recomputation: 34 s b h l / t, times 1 + (p-1)/(p v)
    when interleaved (Korthikanti et al., sections 4.2 and 4.2.3). States: `state_bytes` P / (p t).
    """
    if not 0 <= state_bytes < inf:
        raise ExperimentError(f"{state_bytes:g} bytes per parameter: it must be 0 or more.")
    states = state_bytes * model.parameters / (chosen.p * chosen.t)
    interleaved = (chosen.v > 1) * (chosen.p - 1) / (chosen.p * chosen.v)
    held = 34.0 * model.sequence * model.hidden * model.layers * chosen.b / chosen.t
    return Memory(states, held * (1 + interleaved))
