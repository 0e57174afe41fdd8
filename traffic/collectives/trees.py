"""Trees over ranks: NCCL's binary trees and the binomial tree, as the parent of every rank (-1 at the
root)."""


def double_binary_tree(n: int) -> tuple[list[int], list[int]]:
    """Parents in NCCL's two trees over n ranks: a rank with children in one is a leaf in the other, where
    possible.

    The second tree is the first one mirrored (n even) or shifted by one rank (n odd).

    Source: Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    2009; the shape is that of NCCL's src/graph/trees.cc.
    """
    first = [binary_parent(rank, n) for rank in range(n)]
    if n % 2:
        second = [-1 if (up := first[(rank - 1) % n]) < 0 else (up + 1) % n for rank in range(n)]
    else:
        second = [-1 if (up := first[n - 1 - rank]) < 0 else n - 1 - up for rank in range(n)]
    return first, second


def binary_parent(rank: int, n: int) -> int:
    """A rank's parent in the tree whose root is 0 and where odd ranks are leaves: its lowest set bit moves up
    by one place or, where that leads beyond the n ranks, is cleared."""
    if rank == 0:
        return -1
    low = rank & -rank
    up = (rank ^ low) | (low << 1)
    return up if up < n else rank ^ low


def binomial_parent(rank: int) -> int:
    """A rank's parent in the binomial tree with root 0: the rank without its lowest set bit."""
    return -1 if rank == 0 else rank & (rank - 1)


def children_of(parents: list[int]) -> list[list[int]]:
    """The children of every rank, ascending."""
    children: list[list[int]] = [[] for _ in parents]
    for rank, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(rank)
    return children


def depths_of(parents: list[int]) -> list[int]:
    """How many steps every rank is below its root."""
    depths = []
    for parent in parents:
        depth, ancestor = 0, parent
        while ancestor >= 0:
            depth, ancestor = depth + 1, parents[ancestor]
        depths.append(depth)
    return depths
