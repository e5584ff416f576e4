#!/usr/bin/env bash
# Hashes every file under a folder with eight worker processes, kills two of them on
# the way with SIGKILL, and compares what they found with a plain sha256sum.
#
#   examples/sums/sums.sh [FOLDER]       default: the source tree of Go itself
#
#   DIBS_DB   database; default: a SQLite file that is removed afterwards
#   DIBS      the dibs command; default: built from this repository
set -euo pipefail

folder=${1:-$(go env GOROOT)/src}
workers=8
scratch=$(mktemp -d)
queue=sums-$$ # one of its own, so that it disturbs nobody in a database that is in use
pids=()

cleanup() {
	kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$scratch"
}
trap cleanup EXIT

if [ -z "${DIBS:-}" ]; then
	DIBS=$scratch/dibs
	(cd "$(dirname "$0")/../.." && go build -o "$DIBS" ./cmd/dibs)
fi
export DIBS_DB=${DIBS_DB:-sqlite:$scratch/sums.db}

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# completed prints how many jobs are completed by now.
completed() { "$DIBS" stats "$queue" --json | sed -E 's/.*"completed":([0-9]+).*/\1/'; }

# kill_at kills a worker with SIGKILL once so many jobs are completed.
kill_at() {
	local pid=$1 enough=$2
	while [ "$(completed)" -lt "$enough" ]; do sleep 0.3; done
	kill -KILL "$pid" || fail "there was nobody left to kill"
	wait "$pid" 2>/dev/null || true
	echo "  killed  worker process $pid, after $(completed) of $files files"
}

SECONDS=0

# One job for each file. (A payload is JSON: names with quotes, backslashes or line
# breaks would need more than the shell to decode, and are left out.)
find "$folder" -type f ! -name '*["\]*' ! -name $'*\n*' | LC_ALL=C sort >"$scratch/paths"
files=$(wc -l <"$scratch/paths" | tr -d ' ')
echo "  $files files under $folder"
"$DIBS" migrate >/dev/null
"$DIBS" enqueue "$queue" --lines --file "$scratch/paths" 2>/dev/null | sed 's/^/  /'

# Each runs sha256sum for one file after the other, two at a time. The payload on stdin
# is the path as a JSON string; what sha256sum writes becomes the job's result. Leases
# are short, so that the killed workers' jobs run elsewhere soon. The two that will be
# killed are slow to answer and never end by themselves: however fast the machine is,
# they are killed with files in hand.
hash='read -r path; path=${path#\"}; sha256sum -- "${path%\"}"'
for n in $(seq $workers); do
	case $n in
	3 | 6) work=(-- sh -c "$hash; sleep 3") ;;
	*) work=(--until-empty -- sh -c "$hash") ;;
	esac
	"$DIBS" work "$queue" --name "$queue-$n" --concurrency 2 --lease 3s "${work[@]}" 2>"$scratch/worker-$n.log" &
	pids+=($!)
done
echo "  $workers worker processes, 2 files at once each"
kill_at "${pids[2]}" $((files / 4))
kill_at "${pids[5]}" $((files / 2))
for n in 1 2 4 5 7 8; do
	wait "${pids[n - 1]}" || fail "worker $n: $(tail -3 "$scratch/worker-$n.log")"
done
took=$SECONDS

# What the workers found, against what sha256sum says.
"$DIBS" ls "$queue" --state completed --all --json >"$scratch/jobs"
grep -oE '"result":"[^"]*"' "$scratch/jobs" | sed -E 's/^"result":"//; s/"$//' | LC_ALL=C sort -k 2 >"$scratch/got"
tr '\n' '\0' <"$scratch/paths" | xargs -0 sha256sum -- | LC_ALL=C sort -k 2 >"$scratch/want"
again=$(grep -oE '"attempt":[0-9]+' "$scratch/jobs" | grep -vc ':1$' || true)
left=$("$DIBS" ls "$queue" --all --json | grep -o '"id":' | wc -l || true)
dead=$("$DIBS" ls "$queue" --state dead --all --json | grep -o '"id":' | wc -l || true)
twice=$(cut -c 67- "$scratch/got" | uniq -d | wc -l)
echo "  $(wc -l <"$scratch/got") results in ${took} s; $again files were begun again by another worker"

"$DIBS" prune --queue "$queue" --older-than 0s >/dev/null

[ "$left" -eq 0 ] || fail "$left jobs are left"
[ "$dead" -eq 0 ] || fail "$dead jobs are dead"
[ "$twice" -eq 0 ] || fail "$twice paths have two results"
diff "$scratch/want" "$scratch/got" >"$scratch/diff" || fail "results differ from sha256sum's: $(head -5 "$scratch/diff")"
echo "  OK: every path once, and every sum as sha256sum says"
