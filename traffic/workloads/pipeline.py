"""The order in which a pipeline stage processes its microbatches: 1F1B, plain and interleaved."""

from dataclasses import dataclass

from railweave.framework.errors import ExperimentError


@dataclass(frozen=True, slots=True)
class Pass:
    """One microbatch through one of a stage's model chunks, forward or backward."""

    forward: bool
    microbatch: int
    chunk: int


def one_forward_one_backward(stage: int, p: int, m: int, v: int = 1) -> list[Pass]:
    """The passes of `stage` of p, for m microbatches and v chunks per stage: 2 m v of them.

    First the forward passes that fill the pipeline, then one forward and one backward pass in turn, then the
    remaining backward passes. Interleaved (v > 1), microbatches pass the chunks p at a time, so p must divide
    m. Source: Narayanan et al., SC '21, section 2.2.
    """
    if v > 1 and m % p:
        raise ExperimentError(f"interleaved stages need microbatches in multiples of {p} stages, not {m}.")
    total = m * v
    ahead = p - stage - 1 if v == 1 else 2 * (p - stage - 1) + (v - 1) * p
    ahead = min(ahead, total)
    forward = [_pass(i, p, v, forward=True) for i in range(total)]
    backward = [_pass(i, p, v, forward=False) for i in range(total)]
    alternating = [item for pair in zip(forward[ahead:], backward, strict=False) for item in pair]
    return [*forward[:ahead], *alternating, *backward[total - ahead :]]


def _pass(i: int, p: int, v: int, *, forward: bool) -> Pass:
    """The i-th pass of its direction."""
    if v == 1:
        return Pass(forward, i, 0)
    round_, place = divmod(i, p * v)
    chunk = place // p
    return Pass(forward, round_ * p + place % p, chunk if forward else v - 1 - chunk)
