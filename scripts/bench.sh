#!/bin/sh
# Measures dibs beside River, queues for Node.js and a bare table, on a throw-away PostgreSQL
# whose files are on disk (TMPDIR). With npm it installs the queues for Node.js in bench/node;
# without, they are left out. Arguments go to bench: --only W3 --rounds 5 --json …
# With BENCH, such as BENCH=Claim, it runs Go's own benchmarks of that name instead.
set -eu
cd "$(dirname "$0")/.."
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN DIBS_PG_DIR="${TMPDIR:-/tmp}"
if [ -n "${BENCH:-}" ]; then
	exec go run ./internal/lab/pgtest/withpg go test -run '^$' -bench "$BENCH" -benchmem ./... ./cmd/dibs/...
fi
cd bench/node
if command -v npm >/dev/null && ! [ node_modules/.package-lock.json -nt package-lock.json ]; then
	npm ci >&2 || echo 'npm ci failed' >&2
fi
cd ..
exec go run . "$@"
