"""The solver HiGHS (extra `ilp`), on one thread whatever the rest of the process does with it."""

from types import ModuleType
from typing import Any

from railweave.framework.errors import MachineError


def highs() -> ModuleType:
    """HiGHS, imported when first needed. Raises MachineError naming the extra where it is not installed."""
    try:
        import highspy
    except ImportError as error:
        raise MachineError(
            f"HiGHS is not installed ({error}). `pip install 'railweave[ilp]'`, or use a router that needs "
            "no solver, such as `--router wfr`."
        ) from None
    core: ModuleType = highspy
    return core


def one_thread(core: ModuleType) -> Any:
    """A silent solver on one thread, so that equal programs give equal answers.

    All solvers of a process share their threads, as many as the first of them asked for, and a solver that
    asks for another number fails: the threads of earlier ones are given up first.
    """
    core.Highs.resetGlobalScheduler(True)

    class SilentHighs(core.Highs):  # type: ignore[name-defined,misc]
        def enableCallbacks(self) -> None:
            """Without this, HiGHS 1.16 prints its licence as soon as a solver is made."""
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    solver = SilentHighs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    return solver
