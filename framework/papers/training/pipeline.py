"""The 1F1B schedule of a pipeline: the order of a stage, when it computes each microbatch, the critical path.

Source: Narayanan et al., SC '21, section 2.2 (PipeDream-Flush); equations 3 and 5 of the rail-only paper give
its length without communication, (m + p - 1) t(b).
"""

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple


class Pass(NamedTuple):
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
    total = m * v
    ahead = min(total, p - stage - 1 if v == 1 else 2 * (p - stage - 1) + (v - 1) * p)
    forward = [_pass(i, p, v, forward=True) for i in range(total)]
    backward = [_pass(i, p, v, forward=False) for i in range(total)]
    alternating = chain.from_iterable(zip(forward[ahead:], backward, strict=False))
    return [*forward[:ahead], *alternating, *backward[total - ahead :]]


def _pass(i: int, p: int, v: int, *, forward: bool) -> Pass:
    """The i-th pass of its direction."""
    round_, place = divmod(i, p * v)
    chunk = place // p
    return Pass(forward, round_ * p + place % p, chunk if forward else v - 1 - chunk)


@dataclass(frozen=True, slots=True)
class TimedPass:
    """A forward or backward pass of a microbatch on a stage, both from 0; times in seconds."""

    stage: int
    microbatch: int
    backward: bool
    start_s: float
    end_s: float


def timed_passes(
    stages: int, microbatches: int, forward_s: float, backward_s: float
) -> tuple[TimedPass, ...]:
    """Every pass, by stage and then in the order of `one_forward_one_backward`, without interleaving.

    A pass starts once its stage is free and the pass that it needs has ended; moving activations takes no
    time.
    """
    orders = [one_forward_one_backward(stage, stages, microbatches) for stage in range(stages)]
    ended: dict[tuple[int, int, bool], float] = {}
    passes: list[list[TimedPass]] = [[] for _ in range(stages)]
    while len(ended) < 2 * stages * microbatches:
        for stage, order in enumerate(orders):
            while len(passes[stage]) < len(order):
                forward, number, _ = order[len(passes[stage])]
                needed = _needed(stages, stage, number, not forward)
                if needed is not None and needed not in ended:
                    break
                free_s = passes[stage][-1].end_s if passes[stage] else 0.0
                start_s = max(free_s, 0.0 if needed is None else ended[needed])
                end_s = start_s + (forward_s if forward else backward_s)
                passes[stage].append(TimedPass(stage, number, not forward, start_s, end_s))
                ended[stage, number, not forward] = end_s
    return tuple(timed for row in passes for timed in row)


def critical_path(passes: tuple[TimedPass, ...]) -> tuple[TimedPass, ...]:
    """Passes that follow each other without a gap from the start to the end of the schedule; of several such
    chains the one that stays on a stage where it can."""
    chain = [max(passes, key=lambda timed: timed.end_s)]
    while chain[-1].start_s > 0:
        last = chain[-1]
        before = [
            timed for timed in passes if timed.end_s == last.start_s and abs(timed.stage - last.stage) <= 1
        ]
        chain.append(min(before, key=lambda timed: (abs(timed.stage - last.stage), timed.stage)))
    return tuple(reversed(chain))


def _needed(stages: int, stage: int, microbatch: int, backward: bool) -> tuple[int, int, bool] | None:
    """The pass on a neighbour that must have ended, None for the first forward stage; the last stage goes
    from forward to backward by itself."""
    if backward:
        return (stage + 1, microbatch, True) if stage + 1 < stages else (stage, microbatch, False)
    return (stage - 1, microbatch, False) if stage else None
