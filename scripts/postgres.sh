#!/bin/sh
# Prints the directory of PostgreSQL's server programs. When the machine has none and
# this is Debian or Ubuntu, run as root, it installs them. It starts no server and
# touches no cluster: the tests run their own.
set -eu

find_bin() {
	for dir in "${DIBS_PG_BIN:-}" "$(pg_config --bindir 2>/dev/null || true)" \
		$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -rn) \
		"$(dirname "$(command -v initdb 2>/dev/null || echo /none/initdb)")"; do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

install() {
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "PostgreSQL is missing: install its server (13 or later), or name the directory of" \
			"initdb and postgres in DIBS_PG_BIN, or a running server in DIBS_TEST_POSTGRES" >&2
		exit 1
	fi
	echo "installing PostgreSQL" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq >&2
	apt-get install -y -qq --no-install-recommends postgresql-common >&2
	# Debian's package would make a cluster "main" and start it.
	had_conf=/etc/postgresql-common/createcluster.d
	mkdir -p "$had_conf"
	echo 'create_main_cluster = false' >"$had_conf/dibs-tests.conf"
	trap 'rm -f "$had_conf/dibs-tests.conf"' EXIT
	apt-get install -y -qq --no-install-recommends postgresql >&2
}

find_bin || { install && find_bin; }
