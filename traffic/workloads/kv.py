"""Disaggregated serving: caches of keys and values go from GPUs that prefill to GPUs that decode,
`--workload kv`."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.workloads.replay import ReplayedWorkload
from railweave.traffic.workloads.simccl_order import places


class KvTransfer(ReplayedWorkload):
    """A burst of `requests`, all there when the iteration begins. The first ranks prefill, in the ratio
    `prefill` to `decode`, the others decode; request i is prefilled by the i-th of these and decoded by the
    i-th of those, in turn. Its cache is one message of 2 x layers x kv_heads x head_dim x 2 bytes for each
    token of its prompt (keys and values in 16 bits; defaults: Llama 3 70B, 327,680 bytes a token).

    A GPU prefills its requests one after the other, `prefill_rate` tokens a second (0: in no time), and sends
    each cache once it is whole, so that the time from an iteration's start until a message has landed
    (`message_figures` of a result) is the request's time to first token less the first step of decoding. Only
    engines that model computations take a `prefill_rate`.

    `size` is what the busiest GPU sends: all caches are scaled to it, and so is the time of prefilling; with
    `scaled` false caches have their bytes. A GPU stands for an instance: tensor parallelism within one is not
    modelled. Source: Patel et al., "Splitwise", ISCA 2024; Zhong et al., "DistServe", OSDI 2024, section 2.
    """

    summary = "caches of keys and values from GPUs that prefill to GPUs that decode (disaggregated serving)"
    kind = "kv-transfer"
    parameters: tuple[Parameter, ...] = (
        Parameter("requests", 64, "count", "prompts in an iteration", minimum=1, maximum=1 << 20),
        Parameter("tokens", 2048, "count", "mean length of a prompt", minimum=1, maximum=1 << 24),
        Parameter("spread", 0.5, "factor", "lengths are drawn from 1 - spread to 1 + spread times it", 0, 1),
        Parameter("prefill", 1, "count", "GPUs that prefill, for every `decode` that decode", 1, 1 << 20),
        Parameter("decode", 1, "count", "GPUs that decode, for every `prefill` that prefill", 1, 1 << 20),
        Parameter("layers", 80, "count", "layers of the model", minimum=1, maximum=1 << 16),
        Parameter("kv_heads", 8, "count", "heads with keys and values of their own", 1, 1 << 16),
        Parameter("head_dim", 128, "count", "numbers in a key", minimum=1, maximum=1 << 16),
        Parameter("prefill_rate", 0.0, "factor", "tokens a GPU prefills in a second; 0: all at once", 0),
        Parameter("seed", 1, "count", "seed of the lengths", minimum=0, maximum=2**63 - 1),
        Parameter("scaled", True, "bool", "scale all caches so that the busiest GPU sends `size`"),
    )  # fmt: skip

    def __init__(
        self,
        requests: int = 64,
        tokens: int = 2048,
        spread: float = 0.5,
        prefill: int = 1,
        decode: int = 1,
        layers: int = 80,
        kv_heads: int = 8,
        head_dim: int = 128,
        prefill_rate: float = 0.0,
        seed: int = 1,
        *,
        scaled: bool = True,
    ) -> None:
        self._requests, self._tokens, self._spread, self._seed = requests, tokens, spread, seed
        self._ratio, self._rate, self._scaled = prefill / (prefill + decode), prefill_rate, scaled
        self.token_bytes = 2 * layers * kv_heads * head_dim * 2
        """Keys and values of one token, in 16 bits."""

    def lengths(self) -> Int64:
        """(requests,): tokens of each prompt."""
        draw = np.random.default_rng(self._seed).uniform(-self._spread, self._spread, self._requests)
        return np.maximum(np.rint(self._tokens * (1 + draw)), 1).astype(np.int64)

    def prefilling(self, n_ranks: int) -> int:
        """How many of the ranks prefill: at least one, and not all. Raises ExperimentError for 1 rank."""
        if n_ranks == 1:
            raise ExperimentError("kv of 1 rank: it needs 2 or more, to prefill and to decode. Add a rank.")
        return min(max(1, round(n_ranks * self._ratio)), n_ranks - 1)

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """A message for each request, and with a `prefill_rate` a computation before it."""
        itemsize, n, m = np.dtype(dtype).itemsize, len(ranks), self._requests
        first_decoder, tokens, request = self.prefilling(n), self.lengths(), np.arange(m)
        src = request % first_decoder
        dst = first_decoder + request % (n - first_decoder)
        size = tokens * self.token_bytes
        busiest = int(np.bincount(src, size).max())
        factor = size_bytes / busiest if self._scaled else 1.0
        count = round(busiest * factor) // itemsize
        entries, buffer_count = Entries(n, itemsize), 0
        if count:
            length = np.maximum(np.rint(size * factor / itemsize), 1).astype(np.int64)
            first, to, buffer_count = places(src, dst, length, np.full(m, -1))
            after = None
            if self._rate:
                entries.phase("prefill")
                entries.add(src, src, seconds=tokens * factor / self._rate, after=_one_after_other(src))
                after = np.arange(m + 1), request
            entries.phase("transfer")
            entries.add(src, dst, first=first, to=to, length=length, after=after, slot=m + request)
        return entries.build("kv", count, dtype, redop, buffer_count=buffer_count)


def _one_after_other(src: Int64) -> tuple[Int64, Int64]:
    """The entry that each waits for: the one of the same rank before it."""
    n_ranks = int(src.max()) + 1
    before = np.arange(len(src)) - n_ranks
    waits = before >= 0
    return np.concatenate(([0], np.cumsum(waits))), before[waits]
