"""The arrays of the simulation. Times are whole picoseconds on the declared clock, sizes wire bytes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Int32, Int64

Records = NDArray[Any]
PICOSECONDS = 1e12
"""In a second."""
NEVER = 1 << 62
"""A time after every other."""
NONE = -1
"""In place of an index."""

DATA, ACK = 1, 0
"""What a packet is, and the priority of its queue: 0 goes first."""
MARKED, ARRIVED_BAD, ASKS, ACKED, LOST, LISTED, IN_NIC, CNP, TRIMMED = 1, 2, 4, 8, 16, 32, 64, 128, 256
"""Flags of packets: met congestion; its ICRC is wrong; wants an acknowledgement at once; acknowledged;
declared lost; in the list of its path; in the NIC of its sender; no acknowledgement, but a congestion
notification packet; data without its payload, whose `kind` is ACK."""

HEAD_BYTES = 64
"""What a switch has to have of a packet to know its way."""
CACHE_LINE = 64
"""Bytes. What an event reads of a packet lies in one line, what it reads of a link in two: most of the
loop's time is spent waiting for lines of memory."""

PACKET = np.dtype(
    [
        ("sent", "i8"),  # when its sender gave it to the NIC
        ("pair", "i4"),
        ("entry", "i4"),  # of the schedule: its message
        ("number", "i4"),  # among the packets of its pair in this iteration
        ("copy", "i4"),  # how often it was sent before
        ("path", "i4"),
        ("start", "i4"),  # of its path in the hops, and how many it has
        ("hops", "i2"),
        ("hop", "i2"),  # place in its path of the link that it is on
        ("size", "i4"),
        ("epoch", "i4"),  # of its pair
        ("kind", "i1"),
        ("uses", "i1"),  # lists that hold it
        ("flags", "i2"),
        ("next", "i4"),  # in a queue, at the receiver, in an acknowledgement, among free ones
        ("later", "i4"),  # in the list of its path, or of what its pair has lost
        ("first", "i4"),  # of an acknowledgement: the first packet that it acknowledges
        ("full", "i4"),  # bytes as it was sent
    ],
    align=True,
)
LINK = np.dtype(
    [
        ("ps_per_byte", "f8"),
        ("latency", "i8"),
        ("busy", "i8"),  # until when it sends
        ("queued", "i8", (2,)),  # bytes waiting by priority, but for those in a NIC
        ("head", "i4", (2,)),
        ("tail", "i4", (2,)),
        ("sending", "i4"),  # bytes of the packet that it sends, or sent last
        ("waking", "i1"),  # what has it look into its queues once it is free
        ("instant", "i1"),  # whether packets arrive as they leave it, and none waits in a NIC
        ("paused", "i2"),  # whether its data waits for the far end (PFC)
        ("in_nic", "i8"),  # bytes of packets of senders that wait for their turn; here a line begins
        ("room", "i8"),  # bytes that may wait by priority; 0: no limit
        ("waited_bytes", "i8"),  # of packets that have left and had waited
        ("kmax", "f8"),  # 0: it marks nothing
        ("sent_bytes", "i8"),
        ("sent_packets", "i8"),
        ("data_bytes", "i8"),
        ("longest", "i8"),  # most bytes that have waited
        ("kmin", "f8"),  # here another one
        ("pmax", "f8"),
        ("loss", "f8"),
        ("bad_icrc", "f8"),
        ("drops", "i8"),
        ("lost", "i8"),
        ("marked", "i8"),
        ("trimmed", "i4"),
        ("down", "i4"),  # a record is three lines
    ],
    align=True,
)
PORT = np.dtype(
    [
        ("held", "i8"),  # bytes of data that came over the link and wait at others; here begin ingress ports
        ("xoff", "i8"),  # bytes; above it the link is paused
        ("xon", "i8"),  # down to here it goes on
        ("most", "i8"),  # what finds more than this held is dropped
        ("frame", "i8"),  # time until the sender of the link obeys a frame
        ("asked", "i4"),  # whether the link is to be paused, as the port last said
        ("depth", "i4"),  # of that pause: how many paused links wait for each other, this one included
        ("since", "i8"),  # when the sender began to obey; NEVER: it is not paused
        ("pauses", "i8"),
        ("paused", "i8"),  # time that it has been paused in pauses that are over
        ("fullest", "i8"),
        ("blocked", "i8"),  # in a search for deadlocks: bytes held behind links that may never go on
        ("frames", "i4"),  # on their way back
        ("node", "i4"),  # whose memory it shares with others; NONE: it has room of its own
        ("next", "i4"),  # port that shares it
        ("stuck", "i4"),  # in a search for deadlocks: whether its link may never go on
        ("headroom", "i8"),
    ],
    align=True,
)
MEMORY = np.dtype(
    [
        ("size", "i8"),  # bytes that the ports of a switch share, headroom apart
        ("used", "i8"),
        ("alpha", "f8"),  # a queue, or a port with pauses, may have that many times what is free
        ("blocked", "i8"),  # as of a port
        ("first", "i4"),  # of its ports
        ("asked", "i4"),  # how many of them have their links paused
    ],
    align=True,
)
EVENT = np.dtype([("time", "i8"), ("what", "i8")])
BLOCK_EVENTS = 7
"""Of a block, which has two cache lines."""
BLOCK = np.dtype(
    [
        ("next", "i4"),  # with events of the same day, or among free ones
        ("count", "i4"),
        ("none", "i8"),
        ("time", "i8", (BLOCK_EVENTS,)),
        ("what", "i8", (BLOCK_EVENTS,)),
    ],
    align=True,
)
PATH = np.dtype(
    [
        ("start", "i8"),  # in the hops
        ("hops", "i4"),
        ("head", "i4"),  # packets under way on it, in the order in which they were sent
        ("tail", "i4"),
        ("turns", "i4"),  # how often it was taken, of those of its pair
        ("share", "f8"),
        ("heard", "i8"),  # when one of them was last acknowledged
        ("next_left", "i4"),  # once its pair has left it: the next path that it has left; NONE: none
    ],
    align=True,
)
PAIR = np.dtype(
    [
        ("window", "f8"),  # bytes; what a congestion control sets stands first, in this order
        ("rate", "f8"),  # bytes a second; 0: no pacing
        ("wake", "i8"),  # when the congestion control wants to be woken; NEVER: not
        ("in_flight", "i8"),  # bytes
        ("first_path", "i4"),
        ("paths", "i4"),
        ("epoch", "i4"),
        ("asked", "i4"),  # whether it is to look what it may send
        ("got", "i8"),  # where its packets begin among what has arrived
        ("in_nic", "i4"),  # packets that wait in the NIC
        ("most_in_nic", "i4"),
        ("message", "i8"),  # place in the order of the one that it sends; here a line begins, of sending
        ("messages_end", "i8"),
        ("number", "i4"),  # of the next packet
        ("done", "i4"),  # packets of its message that were sent
        ("turns", "i4"),  # packets that were given a path in turn
        ("even", "i4"),  # whether its paths have equal shares
        ("due", "i8"),  # when an event for its timeouts is out; NEVER: none is
        ("packets", "i8"),
        ("bytes", "i8"),
        ("waking", "i4"),  # whether an event for its time to send is out
        ("calls", "i4"),  # of the chooser
        ("heard", "i8"),  # when it last heard of something; here a line of what acknowledgements change
        ("active", "i8"),  # when it last heard, or sent a packet
        ("newest", "i8"),  # when the latest packet was sent that has arrived
        ("smoothed", "i8"),  # round trip; RFC 6298
        ("variation", "i8"),
        ("probes", "i4"),  # since it last heard of something
        ("lost_tail", "i4"),
        ("left", "i8"),  # when its last packet left, of `left_bytes`
        ("left_bytes", "i8"),
        ("key", "u8"),  # of its draws; here a line of the receiver
        ("owed_head", "i4"),  # what has arrived and is not acknowledged
        ("owed_tail", "i4"),
        ("owed", "i4"),
        ("ack_every", "i4"),  # packets per acknowledgement at most
        ("beyond", "i4"),  # the number behind the latest packet that has arrived
        ("behind", "i4"),  # packets that came behind a later one
        ("depth", "i4"),  # by how many numbers at most
        ("lost_head", "i4"),
        ("marked", "i8"),
        ("twice", "i8"),
        ("oldest", "i8"),  # no packet under way on its paths was sent before
        ("unpaced", "f8"),  # rate from which its NIC alone paces it
        ("job", "i4"),  # here a line of what is seldom needed
        ("left_path", "i4"),  # the first path that it has left and has packets under way on; NONE: none
        ("messages", "i8"),  # where its messages begin in the order
        ("woken", "i8"),  # when an event for `wake` is out; NEVER: none is
        ("notified", "i8"),  # CNPs that have come
        ("first_wait", "i8"),  # silence before the first probe
        ("timeout", "i8"),
        ("most_wait", "i8"),
        ("dead_after", "i8"),
        ("again", "i8"),
        ("trimmed", "i8"),
        ("bad_icrc", "i8"),
        ("declared", "i8"),  # how many packets it considered lost
        ("left_wait", "i8"),  # a timeout and a round trip of the paths that it has left
        ("left_silence", "i8"),  # how long nothing may arrive of what is under way on one of them
        ("probing", "i8"),  # whether it may send one packet more than its window allows; six lines in all
    ],
    align=True,
)
ENTRY = np.dtype(
    [
        ("pair", "i4"),  # NONE: it sends nothing
        ("waits", "i4"),  # number of others it waits for
        ("missing", "i4"),  # packets that have not arrived
        ("packets", "i4"),
        ("first", "i4"),  # number of the first one
        ("job", "i4"),
        ("path", "i4"),  # where all its packets take one
        ("size", "i8"),  # payload
        ("takes", "i8"),  # time of a computation
        ("after", "i8"),  # where those that wait for it begin
        ("after_end", "i8"),
        ("ready", "i8"),
        ("end", "i8"),
    ],
    align=True,
)

COUNT = np.dtype([("known", "i8"), ("lost", "i8"), ("marked", "i8")])
"""Of a path: packets whose fate their sender knows, lost ones as far as it can tell, and ones that came
marked."""
FLOWLET = np.dtype([("last", "i8"), ("path", "i8")])
"""At a place in a path: when a packet came last, and 1 + the path that it went on along, 0 before any."""

(NOW, FREE, N_FREE, N_EVENTS, LOOK_HEAD, LOOKS, READY_HEAD, READIES, HOPS, OTHER_HOPS, DONE, ENDED, DEAD,
 WRONG_CALL, MTU, HEADERS, FIRST_HEADERS, ACK_BYTES, CNP_BYTES, CHOOSER, CHOOSER_BYTES,
 CHOOSES_MESSAGES, SHARES, CONTROL, CONTROL_BYTES, RECEIVER, RECEIVER_BYTES, PAIR_BASE, PAIR_BYTES,
 TRIMMING, ADAPTIVE, GAP, TIES_DRAWN, MARKS_LEAVING, SWITCHING, CREDIT, LATE, BUFFERS, SEARCHING, PATIENCE,
 DEADLOCK, TODAY, FAR, DAY, SHIFT, FREE_BLOCK, N_BLOCKS, FREEING, FAIR, DEPTHS) = range(50)  # fmt: skip
"""Places in `globals`: the time; the first free packet, and how many there are; events to come; pairs that
are to look what they may send, a ring; entries that are ready, a ring; hops of data and of other packets so
far; events so far; whether a job has ended; 1 + a pair that has given up; 1 + a pair whose chooser failed or
named no path of it, or -1 - one whose congestion control failed; sizes; addresses and bytes of what choosers
and congestion controls know of pairs, 0 where there is none; those of the pairs themselves; whether full
queues trim; whether switches choose for packets, BY_PACKET or BY_FLOWLET, the gap between flowlets, and
whether one of equal queues is drawn; whether packets are marked as they leave a queue; CUT_THROUGH or
TOKEN_BUCKETS, of these what a bucket holds, as time, and what a packet needs at a switch on average; which
buffers there are (PAUSED, SHARED); whether a search for deadlocks is to come, how long a link is paused
before one, and 1 + a link of one; events in the heap of today, and in that of days beyond the calendar;
today, as picoseconds shifted by SHIFT; the first free block, and how many there are; links that look into
their queues at the end of the present time; whether pairs take turns in queues; from DEPTHS on, how many
pauses of each depth there were."""
NOTHING, AN_EVENT, AN_ARRIVAL, THIS_TIME = range(4)
"""What has a link look into its queues: no packet waits; an event for that; the arrival of the packet that it
sends, if it is `instant`; the end of the present time."""
BY_PACKET, BY_FLOWLET = 1, 2
"""How a switch spreads packets: each on its own, or a flowlet together."""
CUT_THROUGH, TOKEN_BUCKETS = 1, 2
"""Of SWITCHING: switches begin to send what they have not received whole; links are token buckets."""
PAUSED, SHARED = 1, 2
"""Flags of BUFFERS: ports pause their links (PFC); the ports of a switch share its memory."""

EXTRAS = True
"""Whether anything is trimmed, paused, marked at dequeue, cut through or chosen by switches, buffers are
shared, or pairs take turns in queues: False in the code that is compiled for runs without, which is faster by
what these tests cost (machine.py)."""
REACHED, FULL, STOPPED, BUSY = range(4)
"""Why the loop ends: the time is reached; it needs larger arrays; see ENDED, DEAD, WRONG_CALL and DEADLOCK;
enough events."""
ROOM = 256
"""Free packets, free blocks, and events that have a place, which a step needs at most."""
DAYS = 4096
"""Of the calendar, a power of two."""
DEEPEST = 64
"""Depths of pauses that are counted apart; a deeper one counts as the last."""
N_GLOBALS = DEPTHS + DEEPEST
BATCH = 64
"""Packets that a pair sends before others have their turn to look."""


class State(NamedTuple):
    """All that changes. `hops`: links of paths; `order`: messages by pair; `after`: entries that wait for an
    entry; `got`: of each packet number of each pair 0, 1 once it has arrived, 2 once its sender knows;
    `looks`, `ready`: rings; `freeing`: links (FREEING); `left`: entries of each job that are not over;
    `events`, `far`: heaps of what is to come today and beyond the calendar, `bucket`, `used`: of its days the
    first block, and, 32 in a word, whether there is one (calendar.py); `flowlet`: of hops, where switches
    choose by flowlet; `turn`: of packets, and `turns`: of links the one that it serves (FAIR); `reached`: of
    links, when the last packet comes to the far end (LATE); `ways`: of links, what packets that they were the
    first or the last of have taken of late, at most; `faulty`: of links, whether they are down, lose or
    spoil packets, and `came`, packets of such a link that came to its far end or were lost; `shares`: of
    paths, as the choosers see them; `counts`: of paths, empty where none are wanted. `port`: of links,
    where ports count what they hold (BUFFERS); `memory`: of nodes, where their ports share it."""

    packet: Records
    link: Records
    path: Records
    pair: Records
    entry: Records
    hops: Int32
    order: Int32
    after: Int32
    got: NDArray[np.uint8]
    looks: Int32
    ready: Int32
    freeing: Int32
    left: Int64
    events: Records
    far: Records
    bucket: Int32
    used: Int64
    block: Records
    faulty: NDArray[np.uint8]
    shares: NDArray[np.float64]
    flowlet: Records
    turn: Int64
    turns: Int64
    reached: Int64
    ways: Int64
    came: Int64
    counts: Records
    port: Records
    memory: Records
    globals: Int64


def in_lines(n: int, dtype: np.dtype[Any], first: int = 0) -> Records:
    """`n` zeroed records, of which record `first` begins a cache line."""
    memory = np.zeros(n * dtype.itemsize + CACHE_LINE, np.uint8)
    begin = -(memory.ctypes.data + first * dtype.itemsize) % CACHE_LINE
    return memory[begin : begin + n * dtype.itemsize].view(dtype)
