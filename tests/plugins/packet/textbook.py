"""A simulator as textbooks have it: an object for each packet, link and pair, an event at the end of every
transmission and one at every arrival, a binary heap. Slow, and written from docs/packets.md without the code
of the engine; only the draws are shared, since equal ones are compared."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from railweave.plugins.packet.draws import key_of
from railweave.plugins.packet.layout import BY_PACKET
from railweave.plugins.packet.queues import CROSSING, LOSING, MARKING, STEERING, chance, draw, mixed
from tests.plugins.packet.cases import PACKET, Case, packet_sizes, ps

ACK, DATA, PAUSES, TIMER, FREES = range(5)
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
    held: bool = False
    acknowledged: bool = False
    lost: bool = False
    listed: bool = True
    turn: int = 0
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
        self.ends = -1 - (sim.case.settings.credit or 0)
        self.sent = self.drops = self.lost = self.marked = self.trimmed = 0
        self.latency = round(sim.case.fabric.latency_s[number] * 1e12)
        self.reached = 0
        self.loss = sim.case.loss[number] if len(sim.case.loss) else 0.0
        self.paused = self.asked = self.woken = False
        self.node = int(sim.case.fabric.link_dst[number])
        self.turn = 0
        self.held = self.frames = self.since = self.pauses = self.paused_for = 0
        if pauses := sim.case.settings.buffers.pauses:
            self.most = pauses.xoff + sim.headrooms[number]
            back = sim.case.fabric.latency_s[number ^ 1] + pauses.response_s
            self.frame = round(back * 1e12)

    def waiting(self, priority: int) -> int:
        """Bytes in a queue and on their way out, without those that a NIC holds back."""
        sending = self.sending if self.current and self.ends > self.sim.now else 0
        return sum(packet.wire for packet in self.queues[priority] if not packet.own) + sending

    def full(self, packet: Packet) -> bool:
        room = self.sim.case.settings.room
        return 0 < room < self.waiting(packet.priority) + packet.wire

    def offer(self, packet: Packet, limited: bool, came: Link | None = None) -> None:
        """A packet comes to the queue of a switch, over link `came` if that counts what its port holds."""
        settings = self.sim.case.settings
        full = limited and self.full(packet) if came is None else not came.has_room(packet, self)
        if limited and settings.trimming and packet.priority == DATA and full:
            packet.trimmed = True
            self.trimmed += 1
            packet.pair.trimmed += 1
            came, full = None, self.full(packet)
        if full:
            self.drops += 1
            self.sim.vanish(packet)
            return
        if not settings.marks_leaving:
            self.mark(packet, self.waiting(packet.priority))
        self.add(packet)
        if came is not None and self.current is not packet:
            packet.held = True
            came.hold(packet.wire)

    def mark(self, packet: Packet, waiting: int) -> None:
        settings = self.sim.case.settings
        if packet.priority == DATA and settings.kmax and waiting > settings.kmin:
            share = settings.pmax * (waiting - settings.kmin) / max(settings.kmax - settings.kmin, 1e-9)
            if waiting >= settings.kmax or self.sim.drawn(MARKING, packet, packet.number) < share:
                packet.marked = True
                self.marked += 1

    def idle_for(self, priority: int) -> bool:
        """Whether a packet of that priority would be sent at once."""
        return self.current is None and not self.woken and not (self.paused and priority == DATA)

    def add(self, packet: Packet) -> None:
        idle = self.idle_for(packet.priority)
        waiting = [other.turn for other in self.queues[DATA] if other.pair is packet.pair]
        packet.turn = max([self.turn, *waiting]) + 1
        self.queues[packet.priority].append(packet)
        if idle:
            self.next()

    def next(self) -> None:
        self.woken = False
        self.current = None
        queue = self.queues[0] or self.queues[1]
        if not queue or (self.paused and not self.queues[0]):
            return
        packet = self.current = queue[0]
        if self.sim.case.settings.fair and packet.priority == DATA:
            packet = self.current = min(queue, key=lambda waiting: waiting.turn)  # the first of equal ones
            self.turn = packet.turn
        queue.remove(packet)
        if packet.held:
            packet.held = False
            self.sim.links[packet.path[packet.hop - 1]].hold(-packet.wire)
        self.sending = packet.wire  # the next switch may trim it before all has left
        credit = self.sim.case.settings.credit
        paid = self.sim.now if credit is None else max(self.ends, self.sim.now - credit)
        self.ends = max(paid + ps(self.sim.case.fabric, self.number, self.sending), self.sim.now + 1)
        self.sent += 1
        if packet.own:
            packet.own = False
            packet.pair.in_nic -= 1
            self.sim.look(packet.pair)
        elif self.sim.case.settings.marks_leaving:
            self.mark(packet, sum(behind.wire for behind in self.queues[DATA] if not behind.own))
        self.sim.at(self.ends, FREES, self.number, 0, self.next)
        arrival = self.leaves(packet) + self.latency
        if self.sim.case.settings.late:
            arrival = self.reached = max(self.reached + 1, arrival + self.lateness(packet))
        self.sim.at(arrival, packet.priority, self.number, 0, lambda: self.sim.arrives(packet, self))

    def leaves(self, packet: Packet) -> int:
        """When all of it is out. Cut-through: the first bytes, if another link follows that is no faster.
        Token buckets: at once, and the destination takes time as well."""
        settings = self.sim.case.settings
        if settings.credit is not None:
            return self.sim.now
        if not settings.cut_through:
            return self.ends
        fabric, path, hop = self.sim.case.fabric, packet.path, packet.hop
        onward = path[hop + 1 : hop + 2] if packet.kind == DATA else [link ^ 1 for link in path[:hop][-1:]]
        if not onward or fabric.capacity_bps[onward[0]] > fabric.capacity_bps[self.number]:
            return self.ends
        return self.sim.now + ps(fabric, self.number, min(HEAD, packet.wire))

    def lateness(self, packet: Packet) -> int:
        """Exponential, of the mean that is given for a switch, and twice that for the last one and a GPU."""
        last = packet.hop == (0 if packet.kind == ACK else len(packet.path) - 1)
        drawn = self.sim.drawn(CROSSING, packet, 2 * packet.number + packet.priority)
        return round(-math.log(1 - drawn) * self.sim.late * (1 + last))

    def has_room(self, packet: Packet, out: Link) -> bool:
        """For a packet that has come over this link and goes over another."""
        buffers, free = self.sim.case.settings.buffers, self.sim.free(self.node)
        if buffers.pauses is None and buffers.shared is not None:
            queue = sum(other.size for other in out.queues[DATA] if not other.own)
            return packet.size <= free and queue < buffers.shared.alpha * free
        if buffers.shared is not None and not self.asked:
            return True
        return self.held + packet.size <= self.most

    def xoff(self, free: float) -> int:
        """What the ingress port may hold."""
        pauses, shared = self.sim.case.settings.buffers.pauses, self.sim.case.settings.buffers.shared
        assert pauses is not None
        return pauses.xoff if shared is None else min(pauses.xoff, max(0, int(shared.alpha * free)))

    def goes_on(self, held: int, free: float) -> bool:
        """Whether a paused link may go on with so much held."""
        pauses = self.sim.case.settings.buffers.pauses
        assert pauses is not None
        return held <= max(0, self.xoff(free) - (pauses.xoff - pauses.xon))

    def hold(self, size: int) -> None:
        """The ingress port at the far end holds so much more, and may have the sender pause; or less, and all
        of its switch may have theirs go on."""
        self.held += size
        if self.sim.case.settings.buffers.pauses is None:
            return
        free = self.sim.free(self.node)
        if size > 0 and not self.asked and self.held > self.xoff(free):
            if self.sim.case.settings.buffers.shared is not None:
                self.most = self.held - size + self.sim.headrooms[self.number]
            self.pauses += 1
            self.send_frame(True)
        if size < 0:
            for link in self.sim.links:
                if link.node == self.node and link.asked and link.goes_on(link.held, free):
                    link.send_frame(False)

    def send_frame(self, pause: bool) -> None:
        self.asked = pause
        self.frames += 1
        leaves = max(self.sim.now, self.sim.links[self.number ^ 1].ends)
        self.sim.at(leaves + self.frame, PAUSES, self.number, 0, lambda: self.obey(pause))

    def obey(self, pause: bool) -> None:
        self.frames -= 1
        self.paused = pause
        if pause:
            self.since = self.sim.now
            self.sim.search_later()
            return
        self.paused_for += self.sim.now - self.since
        if self.current is None and self.queues[DATA]:
            self.woken = True
            self.sim.at(self.sim.now, FREES, self.number, 0, lambda: self.next() if self.woken else None)


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
        self.searching, self.stuck = False, set[int]()
        self.memory, buffers = list[float](), case.settings.buffers
        if buffers.shared is not None:
            self.memory = buffers.shared.sizes(case.fabric, buffers.headrooms(case.fabric, PACKET)).tolist()
        if pauses := case.settings.buffers.pauses:
            self.headrooms = list(map(int, case.settings.buffers.headrooms(case.fabric, PACKET)))
            full = (np.array(self.headrooms) + pauses.xoff) * 8e12
            self.patience = int((full / case.fabric.capacity_bps).max())
        self.links = [Link(self, i) for i in range(case.fabric.n_links)]
        self.looks: deque[Pair] = deque()
        self.ready: deque[int] = deque()
        ends = list(zip(case.paths.src.tolist(), case.paths.dst.tolist(), strict=True))
        self.pairs = {
            pair: Pair(i, *pair, [list(path.links) for path in case.paths.paths(i)], case)
            for i, pair in enumerate(ends)
        }
        gpus = {gpu for pair in ends for gpu in pair}
        self.late = round(case.settings.late * len(gpus) / case.fabric.n_gpus)
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
        while min(self.end) < 0 and not self.stuck:
            if self.ready:
                self.begin(self.ready.popleft())
            elif self.looks:
                self.send(self.looks.popleft())
            else:
                self.now, *_, what = heapq.heappop(self.events)
                what()

    def free(self, node: int) -> float:
        """Bytes of the memory that the ports of a switch share."""
        if not self.memory:
            return 0
        return self.memory[node] - sum(link.held for link in self.links if link.node == node)

    # -- deadlocks -------------------------------------------------------------------------------------
    def search_later(self, after: int = 0) -> None:
        if after or not self.searching:
            self.searching = True
            self.at(self.now + max(after, self.patience), PAUSES, 0, 1, self.search)

    def search(self) -> None:
        """Let all that is not paused go on until it is empty, with no new packets: what is paused then stays
        paused."""
        paused = {link for link in self.links if link.paused}
        if not paused:
            self.searching = False
            return
        oldest = max(self.now - link.since for link in paused)
        if oldest >= self.patience:
            goes_on = True
            while goes_on:
                held = dict.fromkeys(self.links, 0)
                for link in paused:
                    for packet in link.queues[DATA]:
                        if packet.hop:
                            held[self.links[packet.path[packet.hop - 1]]] += packet.size
                left = {
                    n: self.memory[n] - sum(bytes_ for link, bytes_ in held.items() if link.node == n)
                    for n in range(len(self.memory))
                }
                going = {
                    link for link in paused
                    if not link.asked or link.frames or link.goes_on(held[link], left.get(link.node, 0))
                }  # fmt: skip
                paused, goes_on = paused - going, bool(going)
            self.stuck = {link.number for link in paused}
        self.search_later(oldest)

    def begin(self, i: int) -> None:
        message = self.case.messages[i]
        if message.src != message.dst:
            self.look(self.pairs[message.src, message.dst])
        elif message.seconds:
            self.at(self.now + round(message.seconds * 1e12), TIMER, i, 2, lambda: self.over(i))
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
            pair.heard = self.now
        pair.active = self.now
        pair.in_flight += size
        pair.packets += 1
        last = number == self.first[i] + len(self.sizes[i]) - 1
        packet.asks = last or copy > 0 or pair.in_flight + SLACK > self.case.window
        if not pair.timing:
            pair.timing = True
            self.at(self.now + self.case.first_wait, TIMER, pair.number, 0, lambda: self.timer(pair))
        link = self.links[packet.path[0]]
        if not self.case.settings.in_turn:
            link.offer(packet, limited=False)
            return
        packet.own = not link.idle_for(DATA)
        pair.in_nic += packet.own
        link.add(packet)

    def acknowledge(self, packet: Packet) -> None:
        pair = packet.pair
        if packet.acknowledged:
            return
        packet.acknowledged = True
        pair.heard = pair.active = self.now
        pair.probes = 0
        if not packet.lost:
            pair.in_flight -= packet.size
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
        wait = max(self.case.first_wait, 2 * pair.smoothed) if pair.smoothed else late
        if pair.probes:
            wait = min(late << min(pair.probes - 1, 30), max(self.case.most_wait, late))
            turns = (pair.probes - 1) * ((5**0.5 - 1) / 2) + 0.5
            wait = int(wait * (0.5 + turns - int(turns)))
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
        self.at(due, TIMER, pair.number, 0, lambda: self.timer(pair))

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
                came = link if self.case.settings.buffers.flags and packet.priority == DATA else None
                self.links[packet.path[packet.hop]].offer(packet, limited=True, came=came)
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
                asks = True
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
            if not packet.acknowledged and (not answer.copy or packet.copy):
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
