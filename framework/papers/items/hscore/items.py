"""The items of this source: what each is, and why ours differs."""

from railweave.framework.papers.items.hscore.laws import h05, h06
from railweave.framework.papers.items.hscore.paths import DOMAINS, RAILS, h01, h02, h03, h04, h07, h09, h10
from railweave.framework.papers.items.hscore.runs import h08, h11, h12
from railweave.framework.papers.items.item import Item, Paper

OPEN_SCORES = "The source names no scores; these are an example of ours, and the formula is taken there."
EXAMPLE_SCORES = f"{OPEN_SCORES} FILE: domains {list(DOMAINS)}, rails {list(RAILS)}, from 1."
EXPLAIN = "railweave explain 1,1 2,2 --domains 2 --rails 5 --router hscore --scores FILE"


ITEMS = (
    Item(
        "h01",
        "r- and d-interfaces, h-scores, score of a path",
        "introduction",
        command=EXPLAIN,
        why=EXAMPLE_SCORES,
        compute=h01,
    ),
    Item(
        "h02",
        "h-ratio gamma, rd against dr",
        "introduction",
        compute=h02,
        why=OPEN_SCORES,
        command="railweave explain 1,1 2,2 --domains 2 --rails 2 --router hscore --scores FILE",
    ),
    Item(
        "h03",
        "cases 1 and 2: same domain, same rail",
        "Part 1, cited",
        compute=h03,
        command="railweave explain 1,1 1,2 --domains 2 --rails 5 --router hscore --scores FILE",
        why=(
            "The text of Part 1 is not at hand, so nothing of it is printed; these are the paths here, "
            "with the scores of h01."
        ),
    ),
    Item(
        "h04",
        "a drd-path over a remote rail",
        "figure 1",
        command=EXPLAIN,
        compute=h04,
        picture=True,
        why=EXAMPLE_SCORES,
    ),
    Item(
        "h05",
        "Remote Rail Theorem and its corollary",
        "problem 1",
        compute=h05,
        command="railweave paper hscore h05",
        why=(
            "The theorem is an equivalence where all scores are above 0; scores are drawn from fixed seeds."
        ),
    ),
    Item(
        "h06",
        "rdr is never useful",
        "problem 1",
        compute=h06,
        command="railweave paper hscore h06",
        why=(
            "The source argues that every rail reaches every domain. By score an rdr-path does win "
            "where both gammas are above 1 and another domain is healthy; where one gamma is at most "
            "1 it never does."
        ),
    ),
    Item(
        "h07",
        "best fit in a sorted registry, O(log K)",
        "figure 2, problem 2",
        command=EXPLAIN,
        compute=h07,
        picture=True,
        why=(
            "Comparisons are those of a binary search over the registry's scores, as numpy's "
            "searchsorted does it for all pairs at once."
        ),
    ),
    Item(
        "h08",
        "the registry, synchronised to every GPU",
        "problem 2",
        "run",
        "railweave run --engine {engine} --domains 2 --rails 4 --size 1M --iterations 16 --fault "
        "'at=iter:2 degrade rail:1 to=20%' --set health.control_delay=25us",
        compute=h08,
        why=(
            "The source names no delay. One process decides for all GPUs here, so all copies are equally "
            "late; what is printed as the source's is the delay itself."
        ),
    ),
    Item(
        "h09",
        "packet spray over [m - delta, m + delta]",
        "problem 2",
        compute=h09,
        command=(
            "railweave explain 1,1 2,2 --domains 2 --rails 5 --router spray --set router.window=blog "
            "--set router.delta=0.1 --scores FILE"
        ),
        why=f"{EXAMPLE_SCORES} The source leaves delta open: 0.1 here. Packets take the paths in turn.",
    ),
    Item(
        "h10",
        "rail-optimised against rail-only: gamma < 1 / H(S)",
        "figure 3",
        compute=h10,
        command="railweave paper hscore h10",
        why=OPEN_SCORES,
    ),
    Item(
        "h11",
        "rail-only has the lower latency",
        "conclusion 4",
        "run",
        (
            "railweave run --engine {engine} --collective direct-all-to-all --ranks gpu:0.0,1.1 --size 64K "
            "--domain-latency 100ns --rail-latency 500ns"
        ),
        compute=h11,
        picture=True,
        why=(
            "The source gives no latencies. Assumed: 500 ns for a link to a rail or a spine, 100 ns "
            "inside a domain, and no other traffic."
        ),
    ),
    Item(
        "h12",
        "feedback: measured health, h-scores, routes",
        "mission",
        "run",
        (
            "railweave run --engine {engine} --domains 2 --rails 4 --size 1M --iterations 8 --fault "
            "'at=iter:2 degrade rail:1 to=20%'"
        ),
        compute=h12,
        why="The source prints no measurement; the fault and the fabric are ours.",
    ),
)

PAPER = Paper(
    "hscore", "LLM inference optimization: rail-only connections, Part 2 (Cisco Outshift, 2024)", ITEMS
)
