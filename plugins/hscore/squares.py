"""All pairs of whole sources: a square of domains x rails for each instead of a list, so that rows share
look-ups."""

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import starts
from railweave.framework.routing.rails.links import RailLinks
from railweave.framework.routing.rails.scores import Scores, ratio


def batch_from(
    links: RailLinks, scores: Scores, src: Int64, dst: Int64, sources: Int64, detour: bool
) -> PathBatch:
    """What `by_rule` and `RailLinks.batch` make of src, dst, which are all pairs of `sources`; no link is
    dead.

    A path is laid out as crossings of switches: two links in one number of 8 bytes.
    """
    row, (domain, rail) = np.arange(len(sources)), np.divmod(sources, links.rails)
    at = _levels(scores, sources, detour)
    over = np.flatnonzero(at < links.rails)
    by_rail = (scores.gamma.take(sources)[:, None] > scores.gamma + EQUAL_WITHIN).reshape(at.shape)
    by_rail[row, :, rail] = True  # the d- and r-paths are the first crossing alone
    by_rail[row, domain] = False
    count = np.full(at.shape, 2)
    count[row, :, rail] = count[row, domain] = 1
    count[row, domain, rail] = 0
    count.ravel()[over] = 3

    d_up, d_down, r_up, r_down = (half.reshape(at.shape[1:]) for half in links.halves)
    crossings = np.empty((*at.shape, 3 if over.size else 2), np.int64)
    crossings[..., 0] = (d_up[domain, rail][:, None] | d_down[domain])[:, None]
    np.copyto(crossings[..., 0], (r_up[domain, rail][:, None] | r_down[:, rail].T)[:, :, None], where=by_rail)
    np.bitwise_or(r_up[domain][:, None], r_down, out=crossings[..., 1])
    np.copyto(crossings[..., 1], d_up[:, rail].T[:, :, None] | d_down, where=by_rail)
    if over.size:
        source, end = np.divmod(over, len(scores.gamma))
        via = scores.order.take(at.ravel()[over])
        crossings.reshape(-1, 3)[over] = links.over(sources[source], end, via)

    used = np.empty(crossings.shape, bool)
    for which in range(crossings.shape[-1]):
        np.greater(count, which, out=used[..., which])
    others = np.arange(len(scores.gamma)) != sources[:, None]
    hops = 2 * count.reshape(others.shape)[others]
    return PathBatch.in_row(src, dst, starts(hops), crossings.ravel()[used.ravel()].view(np.int32))


def _levels(scores: Scores, sources: Int64, detour: bool) -> Int64:
    """(S, D, K): rails at or below the bar of each pair; K where no remote rail is considered."""
    domains, rails = len(scores.domain), len(scores.rail)
    row, (domain, rail) = np.arange(len(sources)), np.divmod(sources, rails)
    at = np.maximum(scores.level.take(sources)[:, None], scores.level).reshape(-1, domains, rails)
    same_rail = np.full((len(sources), domains), rails)
    if detour:
        domain_product = scores.domain.take(domain)[:, None] * scores.domain
        same_rail = scores.at_or_below(ratio(scores.rail.take(rail)[:, None], domain_product))
    at[row, :, rail] = same_rail
    at[row, domain] = rails
    return at
