"""The 1F1B schedule of a pipeline: when each stage computes each microbatch, and the critical path.

Source: Narayanan et al., SC '21, section 2.2 (PipeDream-Flush); equations 3 and 5 of the rail-only paper give
its length without communication, (m + p - 1) t(b).
"""

from dataclasses import dataclass

from railweave.framework.errors import ExperimentError


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward or backward pass of a microbatch on a stage, both from 0; times in seconds."""

    stage: int
    microbatch: int
    backward: bool
    start_s: float
    end_s: float


def one_f_one_b(stages: int, microbatches: int, forward_s: float, backward_s: float) -> tuple[Pass, ...]:
    """Every pass, by stage and then in the order of its stage: p - 1 - stage forward passes at most, then one
    forward and one backward in turn, then the backward passes that are left.

    A pass starts once its stage is free and the pass that it needs has ended; moving activations takes no
    time. Raises ExperimentError for impossible numbers.
    """
    if stages < 1 or microbatches < 1 or not (forward_s > 0 and backward_s > 0):
        raise ExperimentError(
            f"a pipeline of {stages} stages and {microbatches} microbatches with passes of {forward_s:g} and "
            f"{backward_s:g} s: it needs 1 or more of each, and times above 0."
        )
    orders = [_order(stages, microbatches, stage) for stage in range(stages)]
    ended: dict[tuple[int, int, bool], float] = {}
    passes: list[list[Pass]] = [[] for _ in range(stages)]
    while len(ended) < 2 * stages * microbatches:
        for stage, order in enumerate(orders):
            while len(passes[stage]) < len(order):
                number, backward = order[len(passes[stage])]
                needed = _needed(stages, stage, number, backward)
                if needed is not None and needed not in ended:
                    break
                free_s = passes[stage][-1].end_s if passes[stage] else 0.0
                start_s = max(free_s, 0.0 if needed is None else ended[needed])
                end_s = start_s + (backward_s if backward else forward_s)
                passes[stage].append(Pass(stage, number, backward, start_s, end_s))
                ended[stage, number, backward] = end_s
    return tuple(one for row in passes for one in row)


def critical_path(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """Passes that follow each other without a gap from the start to the end of the schedule; of several such
    chains the one that stays on a stage where it can."""
    chain = [max(passes, key=lambda one: one.end_s)]
    while chain[-1].start_s > 0:
        last = chain[-1]
        before = [one for one in passes if one.end_s == last.start_s and abs(one.stage - last.stage) <= 1]
        chain.append(min(before, key=lambda one: (abs(one.stage - last.stage), one.stage)))
    return tuple(reversed(chain))


def _order(stages: int, microbatches: int, stage: int) -> list[tuple[int, bool]]:
    """(microbatch, backward) in the order of a stage."""
    warm = min(stages - 1 - stage, microbatches)
    order = [(number, False) for number in range(warm)]
    for number in range(microbatches - warm):
        order += [(warm + number, False), (number, True)]
    return order + [(number, True) for number in range(microbatches - warm, microbatches)]


def _needed(stages: int, stage: int, microbatch: int, backward: bool) -> tuple[int, int, bool] | None:
    """The pass on a neighbour that must have ended, None for the first forward stage; the last stage goes
    from forward to backward by itself."""
    if backward:
        return (stage + 1, microbatch, True) if stage + 1 < stages else (stage, microbatch, False)
    return (stage - 1, microbatch, False) if stage else None
