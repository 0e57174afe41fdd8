"""The items of this source: what each is, and why ours differs."""

from railweave.framework.papers.items.item import Item, Paper
from railweave.framework.papers.items.optree.conversion import o08
from railweave.framework.papers.items.optree.formulas import o02, o03, o05, o06, o09, o10, o11, o12
from railweave.framework.papers.items.optree.schedules import o01, o04, o07
from railweave.framework.parameters import units

EQUAL_STEPS = (
    "Each time is steps x (d/B + a), so a reduction does not depend on d, B and a; the source simulates "
    "with further delays that it does not name."
)


def example(nodes: int, wavelengths: int) -> str:
    """The command that shows one row of a loop."""
    return f"railweave model optree --nodes {nodes} --wavelengths {wavelengths} --item {units.size(4 << 20)}"


ITEMS = (
    Item(
        "o01",
        "TeraRack node: 64 wavelengths, 4 fibre rings",
        "III-A, figure 1",
        compute=o01,
        command="railweave topo show ring --wavelengths 64",
        why=(
            "Wavelengths count per direction and the fibre rings are not multiplied in: the source's "
            "numbers of steps use 64 in all. Reconfiguration is a time of each step."
        ),
    ),
    Item(
        "o02",
        "Lemma 1, Lemma 2",
        "III-B",
        compute=o02,
        command="railweave paper optree o02",
        why=(
            "Lemma 1 counts ceil(n^2 / 8) on a ring; for odd n the exact number ceil(floor(n^2 / 4) / "
            "2) is lower by up to one (Gu and Peng 2001), and the colouring here reaches it."
        ),
    ),
    Item(
        "o03",
        "example of 16 nodes and 2 wavelengths",
        "III-C, figure 2",
        compute=o03,
        picture=True,
        command="railweave model optree --nodes 16 --wavelengths 2",
        why="The source prints of the 3-ary tree only that it takes more.",
    ),
    Item(
        "o04",
        "routes by stages and positions",
        "III-D1, figure 3",
        compute=o04,
        picture=True,
        command=(
            "railweave run --engine {engine} --topology ring --nodes 16 --wavelengths 2 --collective optree"
        ),
        why="The source does not define uneven groups; 16 nodes in 4-ary groups are even.",
    ),
    Item(
        "o05",
        "Theorems 1, 2 and 3",
        "III-D2, III-D3",
        compute=o05,
        command=example(1024, 64),
        why=(
            "Table I prints depth 7 for 1,024 nodes, Theorem 2 and figure 4 give 6; both take as many steps."
        ),
    ),
    Item(
        "o06",
        "Table I",
        "Table I",
        compute=o06,
        command=example(1024, 64),
        why=(
            "Table I prints N / 8 = 128 for One-stage. Lemma 1 and Theorem 1 give ceil(N^2 / 8w) = "
            "2,048, which alone reproduces the source's 96.85 %. Depth 7 and depth 6 take as many "
            "steps."
        ),
    ),
    Item(
        "o07",
        "the five all-gathers as runs",
        "IV",
        "run",
        ("railweave run --engine {engine} --topology ring --nodes 16 --wavelengths 2 --collective wrht"),
        compute=o07,
        why=(
            "Source: steps by Table I x d/B, without reconfiguration. A run adds packet headers. A "
            "step of neighbor-exchange carries two items after the first; Wrht's formula ignores N "
            "within a level and that every item comes down to every node; arities of OpTree are whole "
            "numbers."
        ),
    ),
    Item(
        "o08",
        "packets of 128 B, flits of 32 B, O/E/O of a cycle a flit",
        "IV-A",
        "run",
        "railweave model optree --packet 128 --flit 32 --cycle 1ns --step-time 25us --item 4M",
        compute=o08,
        why=(
            "The source names no clock: a cycle of 1 ns here, and flits are converted one after the other. "
            "Whatever a step costs, reductions stay. Source: equation 3 and Theorem 1 at depth 2; lightpaths "
            "are set before every step of the run, the first one as well."
        ),
    ),
    Item(
        "o09",
        "depths from 1 on, 96.85 %",
        "figure 4",
        compute=o09,
        picture=True,
        command=example(1024, 64),
        why=EQUAL_STEPS,
    ),
    Item(
        "o10",
        "4 MiB to 128 MiB, N of 1,024 and 2,048",
        "figure 5",
        compute=o10,
        picture=True,
        command=example(2048, 64),
        why=EQUAL_STEPS,
    ),
    Item(
        "o11",
        "96 and 128 wavelengths",
        "figure 6",
        compute=o11,
        picture=True,
        command=example(1024, 128),
        why=f"{EQUAL_STEPS} Wrht's steps by Table I are 387 and 515, from which 88.06 % cannot come.",
    ),
    Item(
        "o12",
        "averages of the abstract",
        "abstract",
        compute=o12,
        command="railweave paper optree o12",
        why=f"{EQUAL_STEPS} The averages are those of figures 5 and 6.",
    ),
)

PAPER = Paper("optree", "Dai et al., OpTree (arXiv 2211.15119)", ITEMS)
