"""Who sends how much to whom in an iteration, as the experiment plans it."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.plan import from_document
from railweave.framework.page.data import codes
from railweave.framework.page.data.page_data import DETAILED_GPUS, Packed, ShownTraffic
from railweave.framework.registry import Registers


def planned_traffic(
    experiment: Mapping[str, object], n_gpus: int, registers: Registers
) -> ShownTraffic | None:
    """That of the largest size, of all jobs together; None of a program, of a large fabric, and where the
    experiment cannot be planned any more (a plugin that is gone)."""
    if n_gpus > DETAILED_GPUS:
        return None
    try:
        plan = from_document(experiment, registers)
    except RailweaveError:
        return None
    if plan.fabric.n_gpus != n_gpus:
        return None
    pairs = [job.on_gpus(job.schedule).pairs() for job in plan.jobs]
    src, dst, amount = (np.concatenate(column) for column in zip(*pairs, strict=True))
    if not len(src) or not amount.max():
        return None
    sent = np.bincount(src * n_gpus + dst, amount, n_gpus * n_gpus).reshape(n_gpus, n_gpus)
    most = float(sent.max())
    steps = np.maximum(codes.ratio(sent / most), sent > 0).astype(np.uint8)
    return ShownTraffic(tuple(map(plan.fabric.node_name, range(n_gpus))), Packed.matrix(steps), most)
