#!/bin/sh
# Runs each fuzz target for FUZZTIME (default 30s), or those that are named: scripts/fuzz.sh FuzzURL.
# Input that breaks a property is kept in testdata/fuzz beside the target: go test runs it from
# then on, so it belongs into the commit that mends the fault.
set -eu
cd "$(dirname "$0")/.."
failed=0
found=
for file in $(grep -rl --include='*_test.go' '^func Fuzz' .); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file"); do
		case " ${*:-$target} " in *" $target "*) ;; *) continue ;; esac
		found=1
		printf '\n== %s in %s\n' "$target" "$(dirname "$file")"
		# SQLite, C translated to Go, is not what is searched: counting its branches takes most
		# of the time. Making an input that is new shorter takes the rest.
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 10x \
			-gcflags=modernc.org/...=-d=libfuzzer=0 "$(dirname "$file")" || failed=1
	done
done
[ -n "$found" ] || { echo "there is no fuzz target ${*:-}" >&2; exit 2; }
exit $failed
