#!/bin/sh
# Prints the directory of MariaDB's server program. If the server (10.6 or later) is missing, it installs it, if this is
# Debian or Ubuntu and it runs as root. It starts no server and makes no database: the tests run their own.
set -eu

find_bin() {
	for dir in "${DIBS_MARIADB_BIN:-}" "$(dirname "$(command -v mariadbd 2>/dev/null || echo /none/mariadbd)")" /usr/sbin /usr/libexec; do
		if [ -x "$dir/mariadbd" ]; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

install() {
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		cat >&2 <<-'END'
			MariaDB's server (10.6 or later) is missing; the tests need it. Install it with this system's
			packages. DIBS_MARIADB_BIN can name the directory of mariadbd.
		END
		exit 1
	fi
	echo "installing $*" >&2
	export DEBIAN_FRONTEND=noninteractive
	# Debian's package starts a server. That is not wanted.
	policy=/usr/sbin/policy-rc.d
	if [ -e $policy ]; then policy=; fi
	trap 'rm -f $policy' EXIT
	if [ -n "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi
	{
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends "$@"
	} >&2
}

find_bin >/dev/null || install mariadb-server
find_bin
