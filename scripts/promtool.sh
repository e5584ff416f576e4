#!/bin/sh
# Prints the path of promtool, which checks the alert rules of deploy/. If there is none, it is taken out of
# Debian's package prometheus into .tools/, once; nothing is installed and no server is started.
set -eu
cd "$(dirname "$0")/.."
tool=$PWD/.tools/promtool

if command -v promtool; then
	exit
fi
if [ ! -x "$tool" ]; then
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "promtool is missing, which checks the alert rules: it is part of Prometheus" >&2
		exit 1
	fi
	echo "fetching promtool" >&2
	mkdir -p .tools
	work=$(mktemp -d .tools/fetch.XXXXXX)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work" # apt-get downloads as another user
	if ! (cd "$work" && apt-get download -qq prometheus >&2) && [ "$(id -u)" = 0 ]; then
		apt-get update -qq >&2
		(cd "$work" && apt-get download -qq prometheus >&2)
	fi
	dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/promtool
	mv "$work/usr/bin/promtool" "$tool"
fi
echo "$tool"
