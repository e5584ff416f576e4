#!/bin/sh
# Installs the C compiler that the race detector needs, if it is missing, this is Debian or Ubuntu and
# it runs as root.
set -eu
command -v "$(go env CC)" >/dev/null && exit
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo 'The race detector needs a C compiler: install gcc or clang, or run make check.' >&2
	exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev
