#!/bin/sh
# The long form of what proves the promises (docs/proof.md): the reference model, the
# interleavings, servers and processes killed, calls with any arguments under the race
# detector, and dibs torture on PostgreSQL, with a server of its own that is killed too,
# and on SQLite. Then schedules whose processes are killed, made-up command lines, and an hour
# of steady load on one worker process, whose memory must not grow. It takes hours in full.
#
#   scripts/soak.sh [PART...]       default: model history interleave crash misuse torture broken schedules lines memory
#
#   SOAK_RUNS      rounds of torture (default 4), each with a seed of its own
#   SOAK_MINUTES   how long the faults of each go on (default 10)
#   SOAK_SEED      the first seed is one more (default: from the clock)
#   SOAK_MEMORY    how long the worker runs whose memory is watched (default 1h)
#   SOAK_DIR       where reports and what torture says are written (default: soak); the
#                  line of each round of torture goes to torture.txt there
set -eu
cd "$(dirname "$0")/.."

runs=${SOAK_RUNS:-4}
minutes=${SOAK_MINUTES:-10}
dir=${SOAK_DIR:-soak}
mkdir -p "$dir"
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN
export DIBS_SOAK=1 DIBS_NIGHT=1

step() { printf '\n== %s\n' "$*"; }

model() {
	step 'each store against the reference model'
	go test ./sqlite ./postgres -run '^TestModel$' -count=1 -v -timeout 0
}

history() {
	step 'random loads, judged'
	go test ./internal/lab/history -run '^TestARandomLoadBreaksNothing$' -count=50 -timeout 0
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

misuse() {
	step 'calls with any arguments, from many goroutines, under the race detector'
	CGO_ENABLED=1 go test -race ./sqlite ./postgres -run '^TestStore$/^misuse$' -count=1 -v -timeout 0
}

torture() {
	go build -o "$dir/dibs" ./cmd/dibs
	table="$dir/torture.txt"
	printf "$row" seed database operations kills cuts stops crashes verdict >"$table"
	failed=0
	for n in $(seq "$runs"); do
		seed=$((SOAK_SEED + n))
		tortured postgres --pg-bin "$DIBS_PG_BIN" || failed=1
		tortured sqlite || failed=1
	done
	step 'what torture did'
	cat "$table"
	awk -v row="$row" 'NR > 1 { runs++; kept += $8 == "kept"; for (i = 3; i <= 7; i++) sum[i] += $i }
		END { printf row, "sum", "", sum[3], sum[4], sum[5], sum[6], sum[7], kept " of " runs " kept" }' "$table"
	return "$failed"
}

row='%-10s  %-10s  %11s  %6s  %6s  %6s  %7s  %s\n'

# tortured NAME [FLAG...] is one round of torture, and its line in the table.
tortured() {
	out="$dir/$1-$seed"
	step "torture $n of $runs on $1, seed $seed"
	database=$1
	shift
	code=0
	"$dir/dibs" torture "$@" --duration "${minutes}m" --seed "$seed" --report "$out.html" --json >"$out.json" || code=$?
	case $(field kept) in true) verdict=kept ;; false) verdict=broken ;; *) verdict="none: exit code $code" ;; esac
	printf "$row" "$seed" "$database" "$(field operations)" "$(field kills)" "$(field cuts)" "$(field stops)" "$(field server_kills)" "$verdict" |
		tee -a "$table"
	return "$code"
}

# field NAME is a number or a word of what the round said; 0 if it said nothing.
field() {
	value=$(sed -n "s/.*\"$1\":\([a-z0-9]*\).*/\1/p" "$out.json")
	echo "${value:-0}"
}

broken() {
	step 'the faults of docs/broken.md are found, by the tests and by dibs torture'
	go test ./internal/lab/broken -run 'TestEveryBrokenVariantIsCaught|TestTortureFindsBrokenVariants' -count=1 -v -timeout 0
}

schedules() {
	step 'a thousand schedules every second, 8 processes of which one is killed each second'
	for database in sqlite postgres; do # one after the other, for how late they are
		go test ./internal/lab/crash -run "^TestEachTickHasOneJobThroughKills\$/^$database\$" -count=1 -v -timeout 0
	done
}

lines() {
	step 'a hundred thousand command lines that nobody would write'
	go test ./cmd/dibs -run '^TestCommandLines$' -count=1 -v -timeout 0
}

memory() {
	step 'the memory of a worker process, which completes 500 jobs a second'
	DIBS_SOAK_MEMORY=${SOAK_MEMORY:-1h} go test ./internal/lab/workload -run '^TestAWorkersMemoryStaysTheSame$' -count=1 -v -timeout 0
}

SOAK_SEED=${SOAK_SEED:-$(date +%s)}
[ $# -gt 0 ] || set -- model history interleave crash misuse torture broken schedules lines memory
for part in "$@"; do
	case $part in
	model | history | interleave | crash | misuse | torture | broken | schedules | lines | memory) ;;
	*)
		echo "unknown part $part: there are model, history, interleave, crash, misuse, torture, broken, schedules, lines and memory" >&2
		exit 2
		;;
	esac
done
for part in "$@"; do
	"$part"
done
