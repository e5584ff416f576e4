#!/bin/sh
# Runs the benchmarks, on SQLite and on a throw-away PostgreSQL whose files are on disk.
# BENCH narrows them, such as BENCH=Claim.
set -eu
cd "$(dirname "$0")/.."
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN DIBS_PG_DIR="${TMPDIR:-/tmp}"
exec go run ./internal/pgtest/withpg go test -run '^$' -bench "${BENCH:-.}" -benchmem ./...
