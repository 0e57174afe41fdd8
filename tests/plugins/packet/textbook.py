"""A simulator as textbooks have it: an object for each packet, link and pair, an event at the end of every
transmission and one at every arrival, a binary heap. Slow, and written from docs/packets.md without the code
of the engine; only the draws are shared, since equal ones are compared."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from railweave.plugins.packet.layout import BY_PACKET
from railweave.plugins.packet.queues import LOSING, MARKING, STEERING, chance, draw, mixed
from railweave.plugins.packet.simulation import key_of
from tests.plugins.packet.cases import PACKET, Case, packet_sizes, ps

ACK, DATA = 0, 1
BATCH = 64
HEAD = 64
TRIMMED_DRAWS = 1 << 14
SLACK = PACKET.path_mtu + PACKET.HEADERS


@dataclass(eq=False)
class Packet:
    kind: int
    pair: Pair
    path: list[int]
    size: int
    number: int = 0
    copy: int = 0
    message: int = 0
    sent: int = 0
    hop: int = 0
    which: int = 0
    asks: bool = False
    marked: bool = False
    trimmed: bool = False
    own: bool = False
    acknowledged: bool = False
    lost: bool = False
    listed: bool = True
    of: list[Packet] = field(default_factory=list)

    @property
    def priority(self) -> int:
        """Its queue: 0 goes first."""
        return ACK if self.trimmed else self.kind

    @property
    def wire(self) -> int:
        """Its bytes on links; `size` is what it was sent with."""
        return min(self.size, HEAD) if self.trimmed else self.size


class Link:
    """Two queues, and the packet that is being sent until `ends`."""

    def __init__(self, sim: Textbook, number: int) -> None:
        self.sim, self.number = sim, number
        self.queues: tuple[deque[Packet], deque[Packet]] = (deque(), deque())
        self.current: Packet | None = None
        self.sending = 0
        self.ends, self.sent, self.drops, self.lost, self.marked, self.trimmed = -1, 0, 0, 0, 0, 0
        self.latency = round(sim.case.fabric.latency_s[number] * 1e12)
        self.loss = sim.case.loss[number] if len(sim.case.loss) else 0.0

    def waiting(self, priority: int) -> int:
        """Bytes in a queue and on their way out, without those that a NIC holds back."""
        sending = self.sending if self.current and self.ends > self.sim.now else 0
        return sum(packet.wire for packet in self.queues[priority] if not packet.own) + sending

    def full(self, packet: Packet) -> bool:
        room = self.sim.case.settings.room
        return 0 < room < self.waiting(packet.priority) + packet.wire

    def offer(self, packet: Packet, limited: bool) -> None:
        """A packet comes to the queue of a switch."""
        settings = self.sim.case.settings
        if limited and settings.trimming and packet.priority == DATA and self.full(packet):
            packet.trimmed = True
            self.trimmed += 1
            packet.pair.trimmed += 1
        if limited and self.full(packet):
            self.drops += 1
            self.sim.vanish(packet)
            return
        if not settings.marks_leaving:
            self.mark(packet, self.waiting(packet.priority))
        self.add(packet)

    def mark(self, packet: Packet, waiting: int) -> None:
        settings = self.sim.case.settings
        if packet.priority == DATA and settings.kmax and waiting > settings.kmin:
            share = settings.pmax * (waiting - settings.kmin) / max(settings.kmax - settings.kmin, 1e-9)
            if waiting >= settings.kmax or self.sim.drawn(MARKING, packet, packet.number) < share:
                packet.marked = True
                self.marked += 1

    def add(self, packet: Packet) -> bool:
        """Whether it waits."""
        self.queues[packet.priority].append(packet)
        if self.current is None:
            self.next()
            return False
        return True

    def next(self) -> None:
        queue = self.queues[0] or self.queues[1]
        if not queue:
            self.current = None
            return
        packet = self.current = queue.popleft()
        self.sending = packet.wire  # the next switch may trim it before all has left
        self.ends = self.sim.now + ps(self.sim.case.fabric, self.number, self.sending)
        self.sent += 1
        if packet.own:
            packet.own = False
            packet.pair.in_nic -= 1
            self.sim.look(packet.pair)
        elif self.sim.case.settings.marks_leaving:
            self.mark(packet, sum(behind.wire for behind in self.queues[DATA] if not behind.own))
        self.sim.at(self.ends, 3, self.number, 0, self.next)
        arrival = (self.head_leaves(packet) or self.ends) + self.latency
        self.sim.at(arrival, packet.priority, self.number, 0, lambda: self.sim.arrives(packet, self))

    def head_leaves(self, packet: Packet) -> int | None:
        """Cut-through: when the first bytes are out, if another link follows that is no faster."""
        if not self.sim.case.settings.cut_through:
            return None
        fabric, path, hop = self.sim.case.fabric, packet.path, packet.hop
        onward = path[hop + 1 : hop + 2] if packet.kind == DATA else [link ^ 1 for link in path[:hop][-1:]]
        if not onward or fabric.capacity_bps[onward[0]] > fabric.capacity_bps[self.number]:
            return None
        return self.sim.now + ps(fabric, self.number, min(HEAD, packet.wire))


class Pair:
    """Both ends of a queue pair."""

    def __init__(self, number: int, src: int, dst: int, paths: list[list[int]], case: Case) -> None:
        self.number, self.paths = number, paths
        self.key = np.uint64(key_of(case.settings.seed, 0, src, dst))
        self.messages: list[int] = []
        self.place = self.done = self.count = 0
        self.in_flight = self.in_nic = self.probes = self.turn = 0
        self.again = self.twice = self.came_marked = self.packets = self.trimmed = 0
        self.numbers: list[int] = []
        self.flowlets: dict[tuple[int, ...], tuple[int, list[int]]] = {}
        self.asked = self.timing = False
        self.listed: list[deque[Packet]] = [deque() for _ in paths]
        self.to_repeat: deque[Packet] = deque()
        self.heard = self.active = self.newest = self.smoothed = self.variation = 0
        self.arrived: set[int] = set()
        self.known: set[int] = set()
        self.owed: list[Packet] = []
        first = {path[0] for path in paths}
        self.most = (1 if len(first) == 1 else 2 * len(first)) if case.settings.in_turn else 1 << 30

    def next_path(self) -> int:
        """Round robin: equal shares."""
        self.turn += 1
        return (self.turn - 1) % len(self.paths)


class Textbook:
    """Run to the end by `run`."""

    def __init__(self, case: Case) -> None:
        self.case, self.now = case, 0
        self.events: list[tuple[int, int, int, int, int, Callable[[], object]]] = []
        self.serial = 0
        self.links = [Link(self, i) for i in range(case.fabric.n_links)]
        self.looks: deque[Pair] = deque()
        self.ready: deque[int] = deque()
        ends = list(zip(case.paths.src.tolist(), case.paths.dst.tolist(), strict=True))
        self.pairs = {
            pair: Pair(i, *pair, [list(path.links) for path in case.paths.paths(i)], case)
            for i, pair in enumerate(ends)
        }
        self.sizes = [packet_sizes(m.size) for m in case.messages]
        self.first = [0] * len(case.messages)
        self.missing = [len(sizes) for sizes in self.sizes]
        self.waits = [len(m.after) for m in case.messages]
        self.end = [-1] * len(case.messages)
        for i, m in enumerate(case.messages):
            if m.src != m.dst:
                pair = self.pairs[m.src, m.dst]
                self.first[i] = sum(len(self.sizes[j]) for j in pair.messages)
                pair.messages.append(i)
            if not m.after:
                self.ready.append(i)

    # -- events ----------------------------------------------------------------------------------------
    def at(self, time: int, rank: int, number: int, which: int, what: Callable[[], object]) -> None:
        self.serial += 1
        heapq.heappush(self.events, (time, rank, number, which, self.serial, what))

    def look(self, pair: Pair) -> None:
        if not pair.asked:
            pair.asked = True
            self.looks.append(pair)

    def run(self) -> None:
        while min(self.end) < 0:
            if self.ready:
                self.begin(self.ready.popleft())
            elif self.looks:
                self.send(self.looks.popleft())
            else:
                self.now, *_, what = heapq.heappop(self.events)
                what()

    def begin(self, i: int) -> None:
        message = self.case.messages[i]
        if message.src != message.dst:
            self.look(self.pairs[message.src, message.dst])
        elif message.seconds:
            self.at(self.now + round(message.seconds * 1e12), 2, i, 2, lambda: self.over(i))
        else:
            self.over(i)

    def over(self, i: int) -> None:
        self.end[i] = self.now
        for j, other in enumerate(self.case.messages):
            for cause in other.after:
                if cause == i:
                    self.waits[j] -= 1
                    if self.waits[j] == 0:
                        self.ready.append(j)

    def drawn(self, purpose: int, packet: Packet, number: int) -> float:
        with np.errstate(over="ignore"):
            which = packet.hop + (TRIMMED_DRAWS if packet.trimmed else 0)
            return chance(packet.pair.key, purpose, number, packet.copy, which)

    # -- senders ---------------------------------------------------------------------------------------
    def send(self, pair: Pair) -> None:
        pair.asked = False
        for _ in range(BATCH):
            if pair.in_nic >= pair.most:
                return
            while pair.to_repeat and pair.to_repeat[0].number in pair.known:
                pair.to_repeat.popleft()
            if pair.to_repeat:
                old = pair.to_repeat[0]
                i, number, copy = old.message, old.number, old.copy + 1
            else:
                if pair.place == len(pair.messages) or self.waits[pair.messages[pair.place]]:
                    return
                i, number, copy = pair.messages[pair.place], pair.count, 0
            size = self.sizes[i][number - self.first[i]]
            if pair.in_flight and pair.in_flight + size > self.case.window:
                return
            if copy:
                pair.to_repeat.popleft()
                pair.again += 1
            else:
                pair.count += 1
                pair.done += 1
                if pair.done == len(self.sizes[i]):
                    pair.done, pair.place = 0, pair.place + 1
            self.launch(pair, i, number, copy, size)
        self.look(pair)

    def launch(self, pair: Pair, i: int, number: int, copy: int, size: int) -> None:
        which = pair.next_path()
        packet = Packet(DATA, pair, pair.paths[which], size, number, copy, i, self.now, which=which)
        pair.listed[which].append(packet)
        if not pair.in_flight:
            pair.heard = pair.active = self.now
        pair.in_flight += size
        pair.packets += 1
        last = number == self.first[i] + len(self.sizes[i]) - 1
        packet.asks = last or copy > 0 or pair.in_flight + SLACK > self.case.window
        if not pair.timing:
            pair.timing = True
            self.at(self.now + self.case.first_wait, 2, pair.number, 0, lambda: self.timer(pair))
        link = self.links[packet.path[0]]
        if not self.case.settings.in_turn:
            link.offer(packet, limited=False)
            return
        packet.own = True
        pair.in_nic += 1
        if link.current is None:
            packet.own = False
            pair.in_nic -= 1
        link.add(packet)

    def acknowledge(self, packet: Packet) -> None:
        pair = packet.pair
        if packet.acknowledged:
            return
        packet.acknowledged = True
        if not packet.lost:
            pair.in_flight -= packet.size
            pair.heard = pair.active = self.now
            pair.probes = 0
        pair.known.add(packet.number)
        pair.newest = max(pair.newest, packet.sent)

    def missed(self, packet: Packet, silent: bool) -> None:
        pair = packet.pair
        if packet.number in pair.arrived and not silent:
            self.acknowledge(packet)
            return
        packet.lost = True
        pair.in_flight -= packet.size
        pair.to_repeat.append(packet)
        self.look(pair)

    def timer(self, pair: Pair) -> None:
        pair.timing = False
        late = max(self.case.timeout, pair.smoothed + 4 * pair.variation)
        for listed in pair.listed:
            while listed and (listed[0].acknowledged or listed[0].sent < pair.newest - late):
                packet = listed.popleft()
                packet.listed = False
                if not packet.acknowledged:
                    self.missed(packet, silent=False)
        if not pair.in_flight:
            return
        wait = max(self.case.first_wait, 2 * pair.smoothed)
        if pair.probes:
            wait = min(late << min(pair.probes - 1, 30), max(self.case.most_wait, late))
        if self.now - pair.active >= wait:
            pair.probes += 1
            pair.active = self.now
            heads = [listed for listed in pair.listed if listed]
            if heads:
                packet = min(heads, key=lambda listed: listed[0].sent).popleft()
                packet.listed = False
                self.missed(packet, silent=True)
        due = min(max(pair.active + wait, self.now + 1), self.now + late)
        pair.timing = True
        self.at(due, 2, pair.number, 0, lambda: self.timer(pair))

    # -- packets that arrive ---------------------------------------------------------------------------
    def vanish(self, packet: Packet) -> None:
        packet.pair.owed[:0] = packet.of

    def arrives(self, packet: Packet, link: Link) -> None:
        if link.loss and self.drawn(LOSING, packet, 2 * packet.number + packet.priority) < link.loss:
            link.lost += 1
            self.vanish(packet)
        elif packet.kind == DATA:
            packet.hop += 1
            if packet.hop < len(packet.path):
                self.steer(packet)
                self.links[packet.path[packet.hop]].offer(packet, limited=True)
            else:
                self.received(packet)
        else:
            packet.hop -= 1
            if packet.hop >= 0:
                self.links[packet.path[packet.hop] ^ 1].offer(packet, limited=True)
            else:
                self.answered(packet)

    def steer(self, packet: Packet) -> None:
        """An adaptive switch: the shortest queue of those on paths that begin as the packet came."""
        settings, pair, hop = self.case.settings, packet.pair, packet.hop
        came = packet.path[:hop]
        paths = [path for path in pair.paths if path[:hop] == came and len(path) > hop]
        if not settings.adaptive or len(pair.paths) == 1:
            return
        last, before = pair.flowlets.get(tuple(came), (0, []))
        rate = self.case.fabric.capacity_bps
        if settings.cut_through and rate[packet.path[hop]] <= rate[came[-1]]:  # it may not have come whole
            paths = [path for path in paths if rate[path[hop]] <= rate[came[-1]]]
        ended = self.now - last > settings.gap or before not in paths
        if settings.adaptive == BY_PACKET or ended:
            before = min(paths, key=lambda path: self.preference(packet, path[hop]))
        pair.flowlets[tuple(came)] = self.now, before
        packet.path = before

    def preference(self, packet: Packet, link: int) -> tuple[int, int]:
        """What an adaptive switch goes by: the queue, and between equal ones the link, or a draw."""
        waiting = self.links[link].waiting(DATA)
        if not self.case.settings.ties_drawn:
            return waiting, link
        with np.errstate(over="ignore"):
            bits = draw(packet.pair.key, STEERING, packet.number, packet.copy, packet.hop)
            return waiting, int(mixed(bits + np.uint64(link)))

    def received(self, packet: Packet) -> None:
        pair, asks = packet.pair, packet.asks or packet.marked
        if packet.trimmed:
            self.answer(packet, asks=True)
            return
        pair.numbers.append(packet.number)
        if packet.number in pair.arrived:
            pair.twice += 1
            asks = True
        else:
            pair.arrived.add(packet.number)
            self.missing[packet.message] -= 1
            if not self.missing[packet.message]:
                self.over(packet.message)
        pair.came_marked += packet.marked
        self.answer(packet, asks)

    def answer(self, packet: Packet, asks: bool) -> None:
        pair = packet.pair
        pair.owed.append(packet)
        if asks or len(pair.owed) >= self.case.settings.ack_every:
            of, pair.owed = pair.owed, []
            size, hop = PACKET.acknowledgement_bytes, len(packet.path) - 1
            answer = Packet(ACK, pair, packet.path, size, packet.number, packet.copy, hop=hop, of=of)
            self.links[packet.path[hop] ^ 1].offer(answer, limited=False)

    def answered(self, answer: Packet) -> None:
        pair = answer.pair
        for packet in answer.of:
            if packet.trimmed:
                self.hears_of_header(packet)
                continue
            if not packet.acknowledged and not packet.lost and packet.copy == 0:
                self.sample(pair, self.now - packet.sent)
            self.acknowledge(packet)
            listed = pair.listed[packet.which]
            while packet.listed and (not self.case.settings.adaptive or listed[0].acknowledged):
                head = listed.popleft()
                head.listed = False
                if not head.acknowledged:
                    self.missed(head, silent=False)
        self.look(pair)

    def hears_of_header(self, packet: Packet) -> None:
        pair = packet.pair
        if packet.acknowledged or packet.lost:
            return
        pair.heard, pair.active, pair.probes = self.now, self.now, 0
        pair.listed[packet.which].remove(packet)
        packet.listed = False
        self.missed(packet, silent=False)

    def sample(self, pair: Pair, trip: int) -> None:
        if not pair.smoothed:
            pair.smoothed, pair.variation = trip, trip // 2
            return
        error = trip - pair.smoothed
        pair.smoothed += error // 8
        pair.variation += (abs(error) - pair.variation) // 4
