#!/bin/sh
# A snapshot of new dumps, then a plan if one is needed.
# Exit codes: 0 nothing to do, 10 there is a new plan, 75 another run is under way; any other: it failed.
#
# SLOTSCOPE_ROOT       folder of the tables
# SLOTSCOPE_DUMPS      folder with one *.rdb a master, and nodes.txt: the output of CLUSTER NODES at that time
# SLOTSCOPE_PLACEMENT  optional: file with weights, capacities, zones, nodes to drain
# SLOTSCOPE_CLUSTER    optional: HOST:PORT of a node of the live cluster, for SLOT-STATS; its password is in SLOTSCOPE_PASSWORD
# SLOTSCOPE_LOCK       optional: file that keeps two runs apart
set -u
: "${SLOTSCOPE_ROOT:?}" "${SLOTSCOPE_DUMPS:?}"

exec 9>"${SLOTSCOPE_LOCK:-/run/lock/slotscope-plan.lock}" || exit 1
flock -n 9 || { echo "slotscope-plan: another run is under way" >&2; exit 75; }

slotscope key-slots --root "$SLOTSCOPE_ROOT" --rdb "$SLOTSCOPE_DUMPS/*.rdb" --topology "$SLOTSCOPE_DUMPS/nodes.txt" || exit

set -- --root "$SLOTSCOPE_ROOT" --if-needed
if [ -n "${SLOTSCOPE_CLUSTER:-}" ]; then
	polls=$(mktemp -d) || exit 1
	trap 'rm -rf "$polls"' EXIT
	slotscope collect "$SLOTSCOPE_CLUSTER" --slot-stats --interval 60 --duration 310 --landing "$polls" || exit
	set -- "$@" --slot-stats "$polls/*/*/slot-stats/*"
fi
if [ -n "${SLOTSCOPE_PLACEMENT:-}" ]; then
	set -- "$@" --placement "$SLOTSCOPE_PLACEMENT"
fi
slotscope rebalance-plan "$@"
