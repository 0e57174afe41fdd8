"""How packets are carried, and how pairs wait."""

from dataclasses import dataclass, field

from railweave.framework.model.arrays import Int64
from railweave.plugins.packet.buffers import Buffers


@dataclass(frozen=True, slots=True)
class Settings:
    """How packets are carried. Bytes: `room` of a queue by priority (0: no limit), `kmin`, `kmax` (0: no
    marks), with `pmax` just below kmax; `trimming`: whether packets that find a queue full go on as headers.
    `adaptive`: layout.BY_PACKET or BY_FLOWLET where switches choose, with `gap` picoseconds between flowlets,
    and `ties_drawn` where one of equal queues is drawn; `marks_leaving`: whether a queue marks by what waits
    behind a packet that leaves; `cut_through`: whether switches begin to send a packet once HEAD_BYTES are
    there, on links no faster than it came on; `credit`: what a link may send at once after it was idle, as
    picoseconds, where links are token buckets, which a packet leaves at once (None: they are not), and
    `late`: picoseconds that a packet then needs at each switch on average, its destination's included, while
    all GPUs send; less by what share of them has no iteration under way, as one machine works for all;
    `ack_every`: packets per acknowledgement at most, 0: as `Simulation.allow` says; `in_turn`: whether a NIC
    fetches the packets of its pairs in turn, instead of queuing what their windows allow; `fair`: whether the
    pairs whose data waits for a link take turns; `buffers`: those of switches."""

    room: int = 0
    kmin: float = 0.0
    kmax: float = 0.0
    pmax: float = 1.0
    ack_every: int = 4
    in_turn: bool = True
    seed: int = 0
    trimming: bool = False
    adaptive: int = 0
    gap: int = 0
    ties_drawn: bool = False
    marks_leaving: bool = False
    cut_through: bool = False
    fair: bool = False
    credit: int | None = None
    late: int = 0
    buffers: Buffers = field(default_factory=Buffers)

    @property
    def extras(self) -> bool:
        """As layout.EXTRAS."""
        queues = self.trimming or self.marks_leaving or self.buffers.flags
        return bool(queues or self.adaptive or self.cut_through or self.fair or self.credit is not None)


@dataclass(frozen=True, slots=True)
class Waits:
    """Of pairs (P,), picoseconds: silence before the first probe, the timeout at least, the longest wait, and
    the silence after which a pair gives up."""

    first: Int64
    timeout: Int64
    most: Int64
    dead: Int64
