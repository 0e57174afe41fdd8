"""How the senders of the lab behave, as far as flows can: how much of a message waits at a link, and how long
a sender is silent before it tries a path again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, PathBatch
from railweave.framework.model.arrays import ArrayNoun, Float

DEAD_AFTER_S = 4.5
TARGET_DELAY_S, LEAST, MOST, SPAN = 0.06, 8, 64, 256
"""The options of the RoCEv2 transport where an experiment has none: `dead_after`, `target_delay`,
`min_window`, `max_window` (packets); and the most packets that a pair may have under way."""
PATH_PACKETS, LINK_PACKETS = 2, 4
FLOOR_S, CEILING_S, SLOWDOWN, SLACK_S = 0.2, 0.5, 6, 0.02
"""The least timeout; how often a silent path is tried at least; how many times longer than at the declared
rate a window may take; what the first try allows beyond two round trips."""


@dataclass(frozen=True, eq=False, slots=True)
class Senders(ArrayNoun):
    """Of each pair, (P,): `window_bits`, how much it has under way at most; `acks`, bytes of acknowledgements
    for each byte that it sends; `first_s`, how long it is silent before it tries its path for the first time;
    `timeout_s`, how long before the second time. It then waits twice as long each time, up to CEILING_S or
    its timeout.

    As the RoCEv2 transport has it (traffic/rocev2/tuning.py, timing.py), with the round trip of a full
    window.
    """

    window_bits: Float
    acks: Float
    first_s: Float
    timeout_s: Float

    @classmethod
    def of(
        cls, fabric: Fabric, paths: PathBatch, packet: PacketFormat, options: Mapping[str, object]
    ) -> Self:
        """Those of the pairs of `paths`; `fabric` has the rates in use."""
        n_pairs, n_paths = len(paths.src), len(paths.weight)
        hop_path, path_pair = paths.hop_path, paths.path_pair
        capacity, bits = fabric.capacity_bps[paths.links], 8.0 * packet.full_packet_bytes
        slowest = np.full(n_paths, np.inf)
        np.minimum.at(slowest, hop_path, capacity)
        depth = slowest * np.bincount(hop_path, 1 / capacity, n_paths)
        latency_s = np.bincount(hop_path, fabric.latency_s[paths.links], n_paths)

        def summed(values: Float) -> Float:
            return np.bincount(path_pair, values, n_pairs).astype(np.float64)

        def option(name: str, default: float) -> float:
            return float(str(options.get(name, default)))

        delay_s = option("target_delay", TARGET_DELAY_S)
        wanted = np.ceil(summed(slowest) * delay_s / bits)
        wanted = np.maximum(wanted, option("min_window", LEAST))
        wanted = np.maximum(wanted, PATH_PACKETS * np.diff(paths.pair_start))
        held = summed(np.ceil(np.maximum(2 * LINK_PACKETS * (depth - 2), 0) - 1e-9))
        in_flight = summed(np.ceil(2 * slowest * latency_s / bits))
        window = np.clip(wanted, 1, option("max_window", MOST)) + held + in_flight
        window = np.minimum(window, SPAN)
        rate, travel_s = np.full(n_pairs, np.inf), np.zeros(n_pairs)
        np.minimum.at(rate, path_pair, slowest)
        np.maximum.at(travel_s, path_pair, 2 * latency_s)
        drain_s = window * bits / rate
        timeout_s = np.maximum(FLOOR_S, SLOWDOWN * drain_s) + travel_s
        stride = np.maximum(1, np.minimum(window // 4, np.maximum(8, window // 8)))
        acks = packet.acknowledgement_bytes / (stride * packet.full_packet_bytes)
        return cls(window * bits, acks, np.minimum(2 * (drain_s + travel_s) + SLACK_S, timeout_s), timeout_s)

    def next_try_s(self, silent_s: Float) -> Float:
        """(P,): after how much silence each of them tries its path, at `silent_s` or next after that."""
        return self._tries(silent_s)[0]

    def tries(self, silent_s: Float) -> Float:
        """(P,): how often each of them has tried its path in so much silence."""
        return self._tries(silent_s)[1]

    def _tries(self, silent_s: Float) -> tuple[Float, Float]:
        after_s, step_s, count = self.first_s.copy(), self.timeout_s.copy(), np.zeros(len(silent_s))
        most_s = np.maximum(CEILING_S, self.timeout_s)
        while np.any(late := after_s < silent_s):
            after_s[late] += step_s[late]
            count += late
            step_s = np.minimum(2 * step_s, most_s)
        return after_s, count
