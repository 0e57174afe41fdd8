"""What scripts, notebooks and the command call: `import railweave as rw`, then `rw.run(...)`.

Keyword arguments are the keys of the experiment file (docs/experiment.md), and, flat as on the command line,
the parameters of the chosen plugins: `rw.run(domains=8, size="4M", faults=["..."])`. No fault is injected and
no directory written unless asked for. Bad input raises the error whose message the command prints; each is a
`RailweaveError`.

`registers` stands in for the installed plugins; front ends and tests pass it, scripts need not.
"""

from railweave.framework.api.runs import PAGE, explain, installed, lab, load, loads, read, run, topology
from railweave.framework.api.studies import compare, compare_engines, compare_jobs, sweep, what_if

__all__ = [
    "PAGE", "compare", "compare_engines", "compare_jobs", "explain", "installed", "lab", "load", "loads",
    "read", "run", "sweep", "topology", "what_if",
]  # fmt: skip
