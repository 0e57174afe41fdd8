"""The items of this source: what each is, and why ours differs."""

from railweave.framework.papers.items.item import Item, Paper
from railweave.framework.papers.items.rail_only.failures import r09
from railweave.framework.papers.items.rail_only.networks import r01, r06, r07, r08, r13, r14, r15
from railweave.framework.papers.items.rail_only.training import r02, r03, r04, r05, r10, r11, r12, r16

FIT = "railweave model iteration --published --gemm-factor 1.5 --attention 16 --domain-rate 600GB/s"


TRAINING = (
    Item(
        "r02",
        "parallelism and the critical path of 1F1B",
        "2.2 and 5.1, figures 2 and 7",
        compute=r02,
        picture=True,
        command="railweave paper rail-only r02",
        why=(
            "The source draws no numbers: 4 stages, 8 microbatches, and a backward pass twice as long as "
            "a forward one. Source: equations 3 and 5 without communication."
        ),
    ),
    Item(
        "r03",
        "three parameters; equations 1 to 7 and 10",
        "5 and appendix B, table 1",
        compute=r03,
        command="railweave model iteration; railweave model allgather",
        why=(
            "The latency that section 5.2 also considers is in none of the equations, and is left "
            "out. Rows of table 4 are rounded to 0.01 s."
        ),
    ),
    Item(
        "r04",
        "volume by kind, share of pairs",
        "3.1, figure 3",
        compute=r04,
        picture=True,
        command=("railweave model traffic --model gpt-1t --tp 8 --pp 64 --dp 6 --batch 3072 --domains 384"),
        why=(
            "The source does not name the job; GPT-1T on 3,072 GPUs here. Groups are rings, so a GPU "
            "has one peer of tensor parallelism."
        ),
    ),
    Item(
        "r05",
        "heatmaps, 98 % in the domain",
        "3, figures 4 and 5",
        compute=r05,
        picture=True,
        command="railweave model traffic --svg FILE",
        why="The source does not name the degrees; those of railweave model traffic here.",
    ),
    Item(
        "r10",
        "constraints 11 to 19, exhaustive search",
        "appendix C",
        compute=r10,
        command="railweave model iteration --model gpt-22b --gpus 64 --domain 8 --batch 64",
        why="Source: the least of all candidates, each evaluated by itself.",
    ),
    Item(
        "r11",
        "iteration times and utilisation",
        "6.1, table 4, figure 8",
        compute=r11,
        picture=True,
        command=FIT,
        why=(
            "As printed, products run at peak, attention has 24 operations and NVLink counts one "
            "direction. Fitted: a GEMM factor of 1.5, which the paper does not explain, 16 "
            "operations, both directions. The 0.15 % and 15.7 % of figure 8 do not follow from table "
            "4."
        ),
    ),
    Item(
        "r12",
        "domain size, rates, batch",
        "6.2 to 6.4, figures 9 to 11",
        compute=r12,
        picture=True,
        command=(
            "railweave model iteration --model gpt-1t --gpus 32768 --domain 256 --batch 4096 --gpu h100"
        ),
        why=(
            "The source names neither the number of GPUs nor the batch of each curve, so no number of "
            "it is compared; 32,768 H100, batch 4,096 and the equations as printed here."
        ),
    ),
    Item(
        "r16",
        "other models, several jobs, experts",
        "7",
        "run",
        compute=r16,
        command="railweave paper rail-only r16 --model FILE",
        why=(
            "The source prints no numbers; Megatron 39.1B on 64 A100 without --model. Jobs on rails "
            "of their own share no link."
        ),
    ),
)

ITEMS = (
    Item(
        "r01",
        "rail-optimised and rail-only topologies",
        "2 and 4, figures 1 and 6",
        compute=r01,
        picture=True,
        command="railweave topo show rail-only --format svg",
        why="The source draws any number of domains and rails; 4 and 4 here.",
    ),
    *TRAINING,
    Item(
        "r06",
        "hierarchical all-gather, reduce-scatter, all-reduce",
        "3.2",
        "run",
        ("railweave run --engine {engine} --domains 4 --rails 8 --collective all-gather --size 64M"),
        compute=r06,
        why="Source: equation 1, twice for an all-reduce. A run adds packet headers.",
    ),
    Item(
        "r07",
        "traffic between rails goes through the HB domain",
        "4",
        compute=r07,
        command="railweave explain g0.0 g1.1 --domains 4 --rails 4 --router hscore",
        why="The source's rule; the router takes it where all scores are equal.",
    ),
    Item(
        "r08",
        "failure of a switch or a link",
        "4.1",
        compute=r08,
        command="railweave loads --domains 4 --rails 4 --router hscore --fault 'down rail:1'",
        why="The source prints no throughput. A GPU without its r-interface goes over its domain.",
    ),
    Item(
        "r09",
        "failure of a server: idle GPU, OCS, whole domain",
        "4.1",
        "run",
        (
            "railweave run --engine {engine} --domains 3 --rails 4 --spares 1 "
            "--fault 'at=iter:2 degrade gpu:1.2 to=10%' --fault 'at=iter:4 replace gpu:1.2'"
        ),
        compute=r09,
        why=(
            "The source prints no times: an iteration after the swap is to be that before, and the swap to "
            "take what the switches are declared to, 25 us. GPU 1.2 runs at a tenth before; how its state "
            "comes to the spare is left out."
        ),
    ),
    Item(
        "r13",
        "cost of both networks",
        "6.5, table 2",
        compute=r13,
        command="railweave model cost",
        why=(
            "The source truncates 37.5 % to 37 %, and says three quarters of the switches where its "
            "table has 60 %. The rule for tiers was derived from its numbers."
        ),
    ),
    Item(
        "r14",
        "lower bounds of an all-gather",
        "appendix A, equations 8 and 9",
        compute=r14,
        command="railweave model allgather --rails 4 --domains 4",
        why=("Both are (y-1) / C_S a shard where C_F is far above C_S; rates of an H100 for every subset."),
    ),
    Item(
        "r15",
        "penalty of an all-to-all",
        "appendix D, equations 20 to 22",
        compute=r15,
        command="railweave model allgather",
        why=("The source prints C_F / C_S; its own equations give C_S / C_F, times y (x-1) / (x (y-1))."),
    ),
)

PAPER = Paper(
    "rail-only",
    "How to Build Low-cost Networks for Large Language Models (without Sacrificing Performance)?",
    tuple(sorted(ITEMS, key=lambda item: item.id)),
)
