#!/bin/sh
# Measures dibs beside River and beside a bare table, on a throw-away PostgreSQL whose
# files are on disk (TMPDIR). Arguments go to bench: --only W3 --rounds 5 --json …
# With BENCH, such as BENCH=Claim, it runs Go's own benchmarks of that name instead.
set -eu
cd "$(dirname "$0")/.."
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN DIBS_PG_DIR="${TMPDIR:-/tmp}"
if [ -n "${BENCH:-}" ]; then
	exec go run ./internal/pgtest/withpg go test -run '^$' -bench "$BENCH" -benchmem ./...
fi
cd bench
exec go run . "$@"
