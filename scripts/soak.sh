#!/bin/sh
# The long form of what proves the promises (docs/proof.md): the reference model, the
# interleavings, servers and processes killed, and dibs torture on PostgreSQL, with a
# server of its own that is killed too, and on SQLite. It takes hours in full.
#
#   scripts/soak.sh [PART...]       default: model history interleave crash torture broken
#
#   SOAK_RUNS      rounds of torture (default 4), each with a seed of its own
#   SOAK_MINUTES   how long the faults of each go on (default 10)
#   SOAK_SEED      the first seed is one more (default: from the clock)
#   SOAK_DIR       where reports and what torture says are written (default: soak)
set -eu
cd "$(dirname "$0")/.."

runs=${SOAK_RUNS:-4}
minutes=${SOAK_MINUTES:-10}
dir=${SOAK_DIR:-soak}
mkdir -p "$dir"
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN
export DIBS_SOAK=1

step() { printf '\n== %s\n' "$*"; }

model() {
	step 'each store against the reference model'
	go test ./sqlite ./postgres -run '^TestModel$' -count=1 -v -timeout 0
}

history() {
	step 'random loads, judged'
	go test ./internal/history -run '^TestARandomLoadBreaksNothing$' -count=50 -timeout 0
}

interleave() {
	step 'small programs in every order of their statements'
	go test ./sqlite ./postgres -run '^TestInterleavings$' -count=1 -v -timeout 0
}

crash() {
	step 'a server killed 50 times, processes killed 200 times'
	go test ./postgres -run TestAKilledServer -count=1 -v -timeout 0
	go test ./sqlite -run 'TestAKilledProcessLosesNothing$' -count=1 -v -timeout 0
}

torture() {
	go build -o "$dir/dibs" ./cmd/dibs
	for n in $(seq "$runs"); do
		seed=$((SOAK_SEED + n))
		step "torture $n of $runs on PostgreSQL, seed $seed"
		"$dir/dibs" torture --pg-bin "$DIBS_PG_BIN" --duration "${minutes}m" --seed "$seed" --report "$dir/postgres-$seed.html"
		step "torture $n of $runs on SQLite, seed $seed"
		"$dir/dibs" torture --duration "${minutes}m" --seed "$seed" --report "$dir/sqlite-$seed.html"
	done
}

broken() {
	step 'dibs torture finds the faults that docs/broken.md says it finds'
	go test ./internal/broken -run TestTortureFindsBrokenVariants -count=1 -v -timeout 0
}

SOAK_SEED=${SOAK_SEED:-$(date +%s)}
[ $# -gt 0 ] || set -- model history interleave crash torture broken
for part in "$@"; do
	case $part in
	model | history | interleave | crash | torture | broken) ;;
	*)
		echo "unknown part $part: there are model, history, interleave, crash, torture and broken" >&2
		exit 2
		;;
	esac
done
for part in "$@"; do
	"$part"
done
