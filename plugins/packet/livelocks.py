"""Packets that go round for nothing: all are trimmed, and sent again."""

import numpy as np

from railweave.framework.model import Fabric
from railweave.plugins.packet import layout
from railweave.plugins.packet.layout import NEVER, State


class Livelocks:
    """Since when nothing has got through, on engines that trim. Without trimming senders hear nothing then,
    and give up by themselves; answers to trimmed packets are signs of life."""

    def __init__(self) -> None:
        self._missing, self.since = -1, 0
        self._trimmed = np.zeros(0, np.int64)

    def livelocked(self, s: State) -> frozenset[int]:
        """The jobs whose packets go round: for as long as a pair may be silent nothing has arrived anywhere,
        and as many packets were trimmed as are under way. None of others."""
        flying = s.pair["in_flight"] > 0
        missing, trimmed = int(s.entry["missing"].sum()), s.link["trimmed"].astype(np.int64)
        if missing != self._missing or not flying.any():
            self._missing, self.since, self._trimmed = missing, int(s.globals[layout.NOW]), trimmed
            return frozenset()
        patience = s.pair["dead_after"][flying]
        waited = s.globals[layout.NOW] - self.since
        under_way = s.pair["in_flight"].sum() / (s.globals[layout.MTU] + s.globals[layout.HEADERS])
        if waited < patience.max() or patience.max() == NEVER or (trimmed - self._trimmed).sum() < under_way:
            return frozenset()
        return frozenset(s.pair["job"][flying].tolist())

    def described(self, s: State, fabric: Fabric, still_s: float) -> str:
        """Of a livelock, in words."""
        trimmed = s.link["trimmed"] - self._trimmed
        return (
            f"livelock: for {still_s:.3g} s all packets that came to full queues were trimmed, "
            f"{int(trimmed.sum()):,} of them, most at {fabric.link_name(int(trimmed.argmax()))}, and sent "
            "again. More room in queues (buffer), a congestion control, or NICs that serve pairs in turn "
            "may help."
        )
