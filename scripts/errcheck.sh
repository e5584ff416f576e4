#!/bin/sh
# Lists errors that nobody looks at. A deferred Close or Rollback is the end of
# something that was only read or has failed already: what was written is closed by
# hand, with its error. Everything else says `_ =` and why.
set -eu
out=$(go tool -modfile=tools/go.mod errcheck -ignoretests -exclude tools/errcheck.txt ./... || [ $? = 1 ])
out=$(printf '%s' "$out" | grep -v '	defer ' || true)
[ -z "$out" ] || { printf '%s\n' "$out"; exit 1; }
