"""Rule lists against brute force: what each key meets, and how short a list could be."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import RouteError
from railweave.framework.routing.compress import compress
from railweave.framework.routing.trie import ANY, Keys, RuleList, Trie, pack


@st.composite
def key_sets(draw: st.DrawFn) -> Keys:
    """Distinct keys of two switches: two fields of 0..2, classes 0..2 and 0..2 actions, some keys free."""
    space = list(product(range(2), range(3), range(3), range(3)))
    chosen = draw(st.lists(st.sampled_from(space), unique=True, min_size=1, max_size=25))
    rows = np.array(chosen, np.int64)
    rows[:, 3] *= draw(st.booleans())
    rows = np.unique(rows, axis=0)
    n = len(rows)
    action = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    free = draw(st.lists(st.booleans(), min_size=n, max_size=n)) if draw(st.booleans()) else [False] * n
    columns = (rows[:, 1].copy(), rows[:, 2].copy())
    return Keys(rows[:, 0].copy(), columns, rows[:, 3].copy(), np.array(action), np.array(free, bool))


def met(rules: RuleList, switch: int, fields: tuple[int, ...], entropy: int) -> list[int]:
    """The rules that match, best first."""
    found = [
        r
        for r in range(len(rules.switch))
        if rules.switch[r] == switch
        and all(want in (ANY, have) for want, have in zip(rules.fields[r], fields, strict=True))
        and rules.entropy[r] in (ANY, entropy)
    ]
    return sorted(found, key=lambda r: -rules.level[r])


@settings(max_examples=300)
@given(key_sets())
def test_every_key_meets_its_rule_first(keys: Keys) -> None:
    rules = compress(keys, list(permutations(range(2))))
    assert not (rules.entropy == 0).any()
    for k in range(len(keys.switch)):
        found = met(rules, int(keys.switch[k]), tuple(int(f[k]) for f in keys.fields), int(keys.entropy[k]))
        if rules.key_rule[k] == ANY:
            assert keys.free[k]
            assert not found
        else:
            assert found[0] == rules.key_rule[k]
            assert rules.action[found[0]] == keys.action[k]
            assert len(found) == 1 or rules.level[found[1]] < rules.level[found[0]]


@settings(max_examples=100)
@given(st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(0, 1), min_size=1))
def test_no_list_for_an_order_is_shorter(function: dict[tuple[int, int], int]) -> None:
    """All prefix lists of one order by enumeration: a default or none at the root and at each first value,
    and then a rule for each key that these leave wrong."""
    pairs = np.array(sorted(function), np.int64)
    action = np.array([function[a, b] for a, b in sorted(function)])
    n = len(action)
    keys = Keys(
        np.zeros(n, np.int64), (pairs[:, 0], pairs[:, 1]), np.zeros(n, np.int64), action, np.zeros(n, bool)
    )

    def shortest(first: int) -> int:
        values = sorted({p[first] for p in function})
        return min(
            (root is not None)
            + sum(
                min(
                    (own is not None)
                    + sum(
                        a != (root if own is None else own) for p, a in function.items() if p[first] == value
                    )
                    for own in (None, 0, 1)
                )
                for value in values
            )
            for root in (None, 0, 1)
        )

    for order in ((0, 1), (1, 0)):
        trie = Trie(keys, order, "none")
        assert trie.costs(1).tolist() == [len(trie.rules().switch)] == [shortest(order[0])]
    assert len(compress(keys, [(0, 1), (1, 0)]).switch) <= min(shortest(0), shortest(1))


def test_what_a_value_s_keys_share_with_no_other_is_split_off() -> None:
    """A domain switch of 4x4 that sprays over all rails, by hand: for its own domain by rail (4), whatever
    the entropy; for the others by entropy (class 0 and three more), whatever the destination: 8, where no
    order of the fields alone does with less than 16."""
    rows = [(1, rail, entropy, rail) for rail in range(4) for entropy in range(4)]
    rows += [
        (domain, rail, entropy, entropy) for domain in (0, 2, 3) for rail in range(4) for entropy in range(4)
    ]
    domain, rail, entropy, action = np.array(rows, np.int64).T.copy()
    keys = Keys(np.zeros(len(rows), np.int64), (domain, rail), entropy, action, np.zeros(len(rows), bool))
    rules = compress(keys, [(0, 1), (1, 0)])
    assert len(rules.switch) == 8


def test_destinations_below_a_switch_are_split_off() -> None:
    """A T0 switch by hand: four GPUs of two servers below it by GPU, whatever the entropy; those of two other
    servers by entropy, two classes a port, whatever the GPU. 4 rules above, and below them one for each of
    7 classes and one for class 0: 12, where no split by a single server does with less."""
    here = [(s, g, entropy, 2 * s + g) for s in (0, 1) for g in (0, 1) for entropy in range(8)]
    away = [(s, g, entropy, 4 + entropy // 2) for s in (2, 3) for g in (0, 1) for entropy in range(8)]
    server, gpu, entropy, action = np.array(here + away, np.int64).T.copy()
    n = len(action)
    keys = Keys(np.zeros(n, np.int64), (server, gpu), entropy, action, np.zeros(n, bool))
    rules = compress(keys, [(0, 1), (1, 0)])
    assert len(rules.switch) == 12
    assert (rules.action[rules.key_rule] == action).all()


def test_extra_fields_only_where_they_are_needed() -> None:
    """Switch 0 tells by field 0 alone; on switch 1 only the value 1 needs field 1 as well."""
    switch = np.array([0, 0, 0, 1, 1, 1, 1])
    fields = (np.array([0, 0, 1, 0, 0, 1, 1]), np.array([0, 1, 0, 0, 1, 0, 1]))
    action = np.array([5, 5, 6, 5, 5, 6, 7])
    none = np.zeros(7, np.int64)
    rules = compress(Keys(switch, fields, none, action, none > 0), [(0,)], (1,))
    extra = rules.fields[:, 1] != ANY
    assert not extra[rules.switch == 0].any()
    assert (rules.fields[extra, 0] == 1).all()
    assert len(rules.switch) == 5


def test_keys_that_cannot_be_told_apart_are_refused() -> None:
    zeros = np.zeros(2, np.int64)
    keys = Keys(zeros, (zeros,), zeros, np.array([1, 2]), zeros > 0)
    with pytest.raises(RouteError, match="switch 0"):
        compress(keys, [(0,)])


def test_no_keys_need_no_rules() -> None:
    none = np.empty(0, np.int64)
    assert len(compress(Keys(none, (none,), none, none, none > 0), [(0,)]).switch) == 0


def test_pack_keeps_the_order_of_rows_past_62_bits() -> None:
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 1 << 40, 200) for _ in range(3)]
    columns[0][:100] = 7
    assert np.array_equal(np.argsort(pack(columns), kind="stable"), np.lexsort(columns[::-1]))
