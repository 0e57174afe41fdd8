"""What the computation of a run takes: simulations are made here, so that it is known and shown."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from railweave.framework.model.arrays import Int64
from railweave.framework.solver.network import Network
from railweave.framework.solver.simulation import COUNTED, FlowSimulation, SolverProgress

SHOWN_AFTER_S, SHOWN_EVERY_S = 2.0, 0.25
"""How long an iteration is computed before its progress is shown, and how often then."""
ACCELERATED = {"auto": None, "on": True, "off": False}


class Work:
    """The simulations of a run; `show(done, total)` is called while one takes long. `numba`: auto, on or off.
    `solve_s`: processor seconds of what was `solved`."""

    def __init__(self, numba: str, show: Callable[[int, int], None]) -> None:
        self._accelerated, self._show = ACCELERATED[numba], show
        self._tallies: list[Int64] = []
        self._next_s, self.solve_s = 0.0, 0.0

    def simulation(self, network: Network) -> FlowSimulation:
        """A new one."""
        simulation = FlowSimulation(network, self._accelerated, progress=self._watch)
        self._tallies.append(simulation.tally)
        return simulation

    @property
    def counts(self) -> dict[str, int]:
        """Events, rates and tasks that were computed so far."""
        return {name: sum(int(tally[at]) for tally in self._tallies) for name, at in COUNTED.items()}

    @contextmanager
    def solving(self) -> Iterator[None]:
        """The block computes flows."""
        began_s, self._next_s = time.process_time(), time.monotonic() + SHOWN_AFTER_S
        yield
        self.solve_s += time.process_time() - began_s

    def _watch(self, progress: SolverProgress) -> None:
        if (now := time.monotonic()) >= self._next_s:
            self._next_s = now + SHOWN_EVERY_S
            self._show(progress.done, progress.total)
