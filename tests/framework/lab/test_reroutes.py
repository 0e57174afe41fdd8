"""Routes move under load: nothing is lost, nothing is delivered twice (sequence numbers at the receivers)."""

from __future__ import annotations

import pytest

from tests.framework.lab.inside import inside

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("kind", ["rail-only", "torus"])
def test_twenty_reroutes_lose_nothing(kind: str) -> None:
    found = inside("reroutes", f'"{kind}"', 20)
    assert len(found["moved"]) == 20 and min(found["moved"]) > 0
    assert found["sent"] >= 10 * 20  # they move while packets are under way; the sooner they do, the fewer
    assert (found["lost"], found["twice"]) == (0, 0)
    # back and forth between two tables: rules do not pile up
    assert max(found["rules"][10:]) <= 1.5 * max(found["rules"][:10])
