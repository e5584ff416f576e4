#!/bin/sh
# Prints the directory of PostgreSQL's server programs. What the tests need and is
# missing (the server, pgbouncer) it installs, if this is Debian or Ubuntu and it runs as root.
# It starts no server and touches no cluster: the tests run their own.
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

has_pgbouncer() {
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]
}

install() {
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		cat >&2 <<-'END'
			PostgreSQL's server (13 or later) or pgbouncer is missing; the tests need both. Install
			them with this system's packages. DIBS_PG_BIN can name the directory of initdb and postgres.
		END
		exit 1
	fi
	echo "installing $*" >&2
	export DEBIAN_FRONTEND=noninteractive
	# Debian's packages start what they bring, and make a cluster. Neither is wanted.
	conf=/etc/postgresql-common/createcluster.d/dibs-tests.conf
	policy=/usr/sbin/policy-rc.d
	if [ -e $policy ]; then policy=; fi
	trap 'rm -f "$conf" $policy' EXIT
	mkdir -p "$(dirname "$conf")"
	echo 'create_main_cluster = false' >"$conf"
	if [ -n "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi
	{
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends "$@"
	} >&2
}

missing=
find_bin >/dev/null || missing=postgresql
has_pgbouncer || missing="$missing pgbouncer"
[ -z "$missing" ] || install $missing
find_bin
