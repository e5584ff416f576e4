#!/bin/sh
# Runs every test, on SQLite and PostgreSQL, under the race detector those in which goroutines meet.
# Each package that needs a PostgreSQL server starts its own. Go keeps the results of tests whose
# packages and files have not changed, and does not run them again; go clean -testcache forgets them.
# With ORDER=random, as always in CI, all run, in an order of a seed that is printed; ORDER=SEED repeats
# it. With DIBS_NIGHT they try more (make night).
set -eu
cd "$(dirname "$0")/.."

begun=$(date +%s)
step() { printf '\n== %s (after %d s)\n' "$*" $(($(date +%s) - begun)); }

step 'what the tests need'
scripts/compiler.sh
left_out=
for script in languages promtool; do
	"scripts/$script.sh" >&2 || left_out="$left_out tests of what scripts/$script.sh names above as missing;"
done
if [ -n "$left_out" ] && [ -n "${CI:-}" ]; then
	echo "CI is set, so nothing may be left out:$left_out" >&2
	exit 1
fi
DIBS_PG_BIN=$(scripts/postgres.sh)
DIBS_PG_VERSION=$("$DIBS_PG_BIN/postgres" --version) # the results of tests depend on it
DIBS_MARIADB_BIN=$(scripts/mariadb.sh)
export CGO_ENABLED=1 DIBS_PG_BIN DIBS_PG_VERSION DIBS_MARIADB_BIN
go build -o .tools/dibs ./cmd/dibs
export DIBS_TEST_PROGRAM=$PWD/.tools/dibs
. scripts/memory.sh
echo "$DIBS_PG_VERSION in $DIBS_PG_BIN"

# A package that takes 40 minutes hangs: alone none takes five, but on a busy machine all take many times
# as long. make lint has run vet. Many tests wait, so more of them run at once than there are processors,
# and one more package.
common="-vet=off -p $(($(getconf _NPROCESSORS_ONLN) + 1)) -parallel 8 -timeout 40m"
case ${ORDER:-${CI:+random}} in
'') ;;
random) common="$common -shuffle $begun" ;;
*) common="$common -shuffle $ORDER" ;;
esac
echo "go test $common"

# SQLite itself, C translated to Go, and its memory are left out of the race detection, and all that is
# translated out of the checks of pointers, with which it takes many times the CPU. No other package: they
# have instances of the standard library's generic code, and leaving those out reports races that are none.
race='-race -gcflags=modernc.org/...=-d=checkptr=0 -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/memory=-race=false'
racing='./sqlite ./cmd/dibs ./cmd/dibs/internal/daemon ./cmd/dibs/internal/database ./cmd/dibs/internal/queues ./cmd/dibs/internal/runner ./cmd/dibs/internal/top ./cmd/dibs/internal/torture . ./adopt ./dibstest ./internal/combine ./internal/lab/history ./internal/waits ./metrics ./mysql ./postgres ./server'

# Modules of their own, with libraries that dibs does not need: pages in a browser, and so on. They wait
# most of their time, so they run beside the rest.
modules() (
	failed=0
	trap 'exit 130' TERM
	for module in server/pagetest server/apitest otel bench examples/orm deploy/manifests sqlserver/parsetest; do
		step "$module"
		how=
		[ $module != otel ] || how=$race
		case $module in deploy/manifests | sqlserver/parsetest) how=-count=1 ;; esac # they read files beside their modules, of which go keeps no account
		(cd $module && go test $how $common ./...) || failed=1
	done
	exit $failed
)
beside=$(mktemp)
modules >"$beside" 2>&1 &
modules=$!
trap 'rm -f "$beside"' EXIT
trap 'kill $modules; exit 130' INT TERM

failed=
step 'every test'
export DIBS_TEST_SPLIT=1 # from here on: each test is in one of these two steps (internal/needs); the modules run all of theirs
go test $common ./sqlite ./... ./cmd/dibs/... || failed="$failed, every test" # the one that uses one processor for long is not the last
step 'tests of goroutines, under the race detector'
go test $race $common $racing || failed="$failed, tests of goroutines"
step 'modules of their own'
wait $modules || failed="$failed, modules of their own"
cat "$beside"
step 'done'
[ -n "${DIBS_NIGHT:-}" ] || left_out="$left_out what is too long for make test, which make night tries;"
[ -n "${DIBS_TEST_SQLSERVER:-}" ] || left_out="$left_out what needs a SQL Server, which DIBS_TEST_SQLSERVER can name;"
printf 'left out:%s what this machine cannot do (go test -v names it)\n' "$left_out"
[ -z "$failed" ] || { printf 'FAILED: %s; go test %s\n' "${failed#, }" "$common"; exit 1; }
