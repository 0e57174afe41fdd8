"""The items of this source: what each is, and why ours differs."""

from railweave.framework.papers.items.item import Item, Paper
from railweave.framework.papers.items.tpuv4.cubes import t09, t13, t14
from railweave.framework.papers.items.tpuv4.optimiser import t03, t06, t07
from railweave.framework.papers.items.tpuv4.pods import t10, t11, t12
from railweave.framework.papers.items.tpuv4.routes import t01, t02, t04, t05, t08

LOADS = "railweave loads --topology torus --shape {shape} --router {router} --fault 'down ocs:X:0,0'"


ITEMS = (
    Item(
        "t01",
        "static tables, one path a pair",
        "4",
        compute=t01,
        command="railweave routers; railweave plugin check wfr",
        why=("The time to program the tables at a job's start needs a lab and is not measured here."),
    ),
    Item(
        "t02",
        "dimension order, ties by parity, 2 virtual channels",
        "4.1",
        compute=t02,
        command="railweave explain 1,0,0 5,0,0 --topology torus --shape 8x8x8 --router dor",
        why="Axes of equal length go in the order X, Y, Z, which the source leaves open.",
    ),
    Item(
        "t03",
        "ties on a twisted torus",
        "4.1, figure 9",
        "ILP",
        compute=t03,
        picture=True,
        command="railweave explain 0,0,0 1,1,2 --topology twisted-torus --shape 4x4x8 --router ilp",
        why="The source leaves ties to its optimiser and prints no numbers of them.",
    ),
    Item(
        "t04",
        "one X OCS out of 4x4x8",
        "4.2, figure 10",
        compute=t04,
        picture=True,
        command=LOADS.format(shape="4x4x8", router="wfr"),
        why="The source prints no throughput for this figure.",
    ),
    Item(
        "t05",
        "wild-first sequences: sandwich rule and order rule",
        "4.2, figure 11",
        compute=t05,
        command=(
            "railweave loads --topology torus --shape 4x4x4 --router wfr --set router.sequence=xyZYX "
            "--fault 'down link:g0.0.0->g0.0.1'"
        ),
        why="A sequence that breaks the order rule is refused, so no faults are tried with it.",
    ),
    Item(
        "t06",
        "offline optimiser: maximum concurrent flow",
        "4.3",
        "LP",
        compute=t06,
        command=(
            "railweave explain 0,0,0 1,0,0 --topology torus --shape 8x8x8 --router ilp --fault 'down "
            "ocs:X:0,0'"
        ),
        why="The source writes 15/16 as 93.4 %; it is 93.75 %.",
    ),
    Item(
        "t07",
        "all-to-all, healthy and with one OCS down",
        "4.3, table 2",
        "ILP",
        compute=t07,
        picture=True,
        command=LOADS.format(shape="8x8x8", router="ilp"),
        why=(
            "15/16 holds where the lost axis is the bottleneck and 8 or longer; other shapes lose "
            "less, or more by single paths. dor replaces no path, so some pairs have none: 0."
        ),
    ),
    Item(
        "t08",
        "nearest neighbours fall to a half",
        "5.3",
        compute=t08,
        command="railweave paper tpuv4 t08",
        why=("Every neighbour sends one unit in each direction; the pair of a lost link shares another."),
    ),
    Item(
        "t09",
        "step times of RM, LLM and BERT",
        "5.3, table 3",
        "run",
        compute=t09,
        command=(
            "railweave run --engine {engine} --topology torus --router wfr --oracle "
            "--collective multi-ring-all-reduce --fault 'at=iter:1 down ocs:X:0,0'"
        ),
        why=(
            "The source's models are not public: it prints what their steps lose, and runs say how much "
            "longer collectives take. The rest of a step is computation, or hidden by it. A loss then needs "
            "this share of a step in all-reduces that nothing hides."
        ),
    ),
    Item(
        "t10",
        "failure rates of machines, cables and OCSes",
        "5.2, figure 12",
        "Monte Carlo",
        compute=t10,
        command="railweave model fleet",
        why=(
            "Failures are drawn at the rates of the figure; cables of a cube and repair times are assumed. "
            "OCSes fail some 400 times in the 60 years drawn, which is 5 % by chance."
        ),
    ),
    Item(
        "t11",
        "xconnects against jobs",
        "5.1, figure 13",
        "Monte Carlo",
        compute=t11,
        command="railweave model fleet",
        why="The figure has no numbers that could be read; sizes and durations of jobs are assumed.",
    ),
    Item(
        "t12",
        "share of jobs on fault-tolerant routes",
        "5.3, figure 14",
        "Monte Carlo",
        compute=t12,
        command="railweave model fleet",
        why="Repair times are assumed; jobs that do not opt in move to another pod.",
    ),
    Item(
        "t13",
        "cubes set anew, spare cubes, healthd, preflight",
        "5, 7",
        "run",
        compute=t13,
        command=(
            "railweave run --engine {engine} --topology torus --shape 4x4x8 --spare-cubes 1 "
            "--collective send-recv --fault 'at=iter:4 replace cube:0.0.1'"
        ),
        why=(
            "Source of times: a healthy iteration before, and the declared time of the switches, which the "
            "source gives as milliseconds and here is 25 us. Healthd and preflight decide when to replace; "
            "here the experiment says when."
        ),
    ),
    Item(
        "t14",
        "randomised routes, hot swap of a cube",
        "7",
        "run",
        compute=t14,
        command=(
            "railweave run --engine {engine} --topology torus --shape 4x4x8 --spare-cubes 1 --no-feedback "
            "--collective send-recv --fault 'at=iter:1+0.1s down cube:0.0.1' "
            "--fault 'at=iter:1+0.3s replace cube:0.0.1'"
        ),
        why=(
            "Future work of the source, without numbers. Packets are spread over all shortest paths, four "
            "detours for a lost cable, so its neighbours get 1 / (1 + 1/4); that is not free of deadlock "
            "with two virtual channels. The state of the ranks is taken to be there when the spare is."
        ),
    ),
)

PAPER = Paper("tpuv4", "Zu et al., Resiliency at Scale (NSDI'24)", ITEMS)
