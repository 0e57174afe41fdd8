"""What may come next on a line of the prompt."""

from collections.abc import Iterable, Sequence

from railweave.framework.experiment.faults import VERBS
from railweave.framework.experiment.schema import KEYS
from railweave.framework.lab.handle.client import OF_RUNS
from railweave.framework.lab.interface_names import host_name
from railweave.framework.model import Fabric
from railweave.framework.registry import Registers

SIZES = ("64K", "256K", "1M", "4M")


class Completion:
    """The words of a fabric and of the installed plugins."""

    def __init__(self, fabric: Fabric, registers: Registers) -> None:
        self._fabric, self._registers = fabric, registers
        self._hosts = [host_name(fabric, gpu) for gpu in range(fabric.n_gpus)]

    def of(self, words: Sequence[str], text: str) -> list[str]:
        """What may take the place of `text` behind the complete `words`."""
        quote = text[:1] if text[:1] in ("'", '"') else ""
        return [
            quote + choice for choice in self._choices(words) if choice.startswith(text.removeprefix(quote))
        ]

    def _choices(self, words: Sequence[str]) -> Iterable[str]:
        command, complete = words[0] if words else "", len(words) - 1
        nodes, gpus = list(self._fabric.node_ids), self._fabric.n_gpus
        match command:
            case "fault":
                return self._of_fault([word.strip("'\"") for word in words[1:]])
            case "run" if complete == 0:
                return (*self._registers["collective"], *self._registers["workload"])
            case "run":
                return (*(SIZES if complete == 1 else ()), *(f"{key}=" for key in KEYS if key in OF_RUNS))
            case "routes":
                return nodes[:gpus]
            case "iperf" | "iperfudp":
                return self._hosts
            case "link":
                return nodes if complete < 2 else ("down", "up")
            case "switch":
                return nodes if complete < 1 else ("stop", "start")
            case _:
                return (*self._hosts, *nodes)

    def _of_fault(self, words: Sequence[str]) -> Iterable[str]:
        if not words:
            return VERBS
        verb = VERBS.get(words[0])
        if verb is None:
            return ()
        if len(words) > 1:
            return [f"{parameter.name}=" for parameter in (*verb.parameters, *verb.options)]
        fabric, switches = self._fabric, [f"switch:{name}" for name in self._fabric.node_ids]
        if verb.objects:
            return ["controller", *switches]
        nodes = [
            f"{fabric.node_kind(node)}:{'.'.join(map(str, fabric.coordinates(node)))}"
            for node in range(fabric.n_nodes)
        ]
        return [*nodes, *switches, *(f"link:{fabric.link_name(link)}" for link in range(fabric.n_links))]
