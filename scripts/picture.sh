#!/bin/sh
# Remakes the picture of `dibs demo` in the README: runs the demo in a terminal of 80
# columns and draws what it showed. Needs script(1), of util-linux.
#   scripts/picture.sh [FILE [arguments of dibs demo]]
set -eu
cd "$(dirname "$0")/.."
file=${1:-docs/demo.svg}
[ $# -eq 0 ] || shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go build -o "$tmp/dibs" ./cmd/dibs
go build -o "$tmp/picture" ./scripts/picture
PATH=$tmp:$PATH TERM=xterm-256color script -qec "stty cols 80 rows 27; echo '\$ dibs demo'; dibs demo $*" /dev/null </dev/null |
	"$tmp/picture" "$file"
