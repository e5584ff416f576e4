#!/bin/sh
# Checks the workflows of .github and what a release is made of. The programs that do are built
# once, into .tools; they have hundreds of dependencies, which tools/go.mod is spared.
set -eu
cd "$(dirname "$0")/.."

tool() { # MODULE NAME VERSION prints the program's path
	dir=$PWD/.tools/$2-$3
	[ -x "$dir/$2" ] || GOBIN=$dir go install "$1@$3" >&2
	echo "$dir/$2"
}

actionlint=$(tool github.com/rhysd/actionlint/cmd/actionlint actionlint v1.7.12)
"$actionlint"
# The last version that Go 1.26 builds from parts that are all to be had.
goreleaser=$(tool github.com/goreleaser/goreleaser/v2 goreleaser v2.16.0)
"$goreleaser" check
