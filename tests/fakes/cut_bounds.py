"""The physical limit as a number."""

from typing import Any

from railweave.framework.analysis.limits import tightest_cut


def cut_bound_s(*args: Any, **options: Any) -> float:
    """The lower bound of `tightest_cut`, in seconds."""
    return tightest_cut(*args, **options).seconds
