#!/bin/sh
# Runs the benchmarks, on SQLite and on a throw-away PostgreSQL. BENCH narrows them,
# such as BENCH=Claim.
set -eu
cd "$(dirname "$0")/.."
DIBS_PG_BIN=$(scripts/postgres.sh)
export DIBS_PG_BIN
exec go run ./internal/pgtest/withpg go test -run '^$' -bench "${BENCH:-.}" -benchmem ./...
