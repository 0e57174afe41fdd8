#!/bin/sh
# Seconds from here until a router of one's own has changed its first route, with real packets: what someone waits for
# who has just started the image. Ends with 1 if that takes longer than its argument (120), or does not happen.
set -eu
limit=${1:-120}
began=$(date +%s)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > mine.py <<'ROUTER'
from railweave.framework.hookspecs import Router, hookimpl
from railweave.framework.model import RouteTable
from railweave.framework.routing.equal_cost import ShortestPaths


class FirstShortest(Router):
    summary = "the first of the shortest live paths"

    def configured(self, options):
        return self

    def routes(self, fabric, health):
        shortest = ShortestPaths(fabric, health.down)
        return RouteTable.of(fabric, lambda src, dst: shortest(src, dst)[:1])


@hookimpl
def register_routers(register):
    register("mine", FirstShortest())
ROUTER
railweave --plugin mine.py run --router mine --topology fat-tree --size 256K --iterations 3 --out run \
    --fault 'at=iter:1 down link:a0.0->c0.0'
grep -q '"kind": *"reroute"' run/events.jsonl || { echo "no route changed" >&2; exit 1; }
took=$(($(date +%s) - began))
echo "first reroute, run and report: $took s of $limit"
[ "$took" -le "$limit" ]
