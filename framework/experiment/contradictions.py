"""Keys of an experiment that contradict each other, or mean nothing with the others."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from railweave.framework.experiment.rank_programs import problems
from railweave.framework.experiment.schema import OF_COLLECTIVES, OF_PROGRAMS, Experiment
from railweave.framework.experiment.settings import Key


def contradictions(
    request: Experiment, given: Mapping[str, object], broken: Collection[str]
) -> Iterator[tuple[Key, str]]:
    """(key, message) of each. `given`: the keys that are set, with their values; `broken`: those whose values
    cannot be read."""
    if request.oracle and not request.feedback:
        yield ("oracle",), "gives the router scores that it ignores without feedback. Give one."
    if request.workload and "collective" in given:
        yield ("workload",), "takes the place of a collective, and there is one too. Keep one of them."
    width = np.dtype(request.dtype).itemsize
    odd = next((size for size in request.sizes if size % width), None)
    if odd is not None and not {"size", "dtype"} & set(broken):
        yield ("size",), f"{odd} bytes are not whole elements of {request.dtype} ({width} bytes each)."
    yield from _of_programs(request, given, broken)


def _of_programs(
    request: Experiment, given: Mapping[str, object], broken: Collection[str]
) -> Iterator[tuple[Key, str]]:
    """What is wrong with a program, and keys that mean nothing with one or without."""
    if request.program:
        for name in (*OF_COLLECTIVES, "collective", "workload"):
            if given.get(name) is not None:
                yield (name,), "means nothing with a program. Keep one of them."
        for name, message in () if set(OF_PROGRAMS) & set(broken) else problems(request):
            yield (name,), message
    elif "program" not in broken:
        for name in OF_PROGRAMS:
            if given.get(name):
                yield (name,), "means nothing without a program. Leave it out."
