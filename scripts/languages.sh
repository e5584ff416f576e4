#!/bin/sh
# Installs the interpreters and libraries for databases that the tests of examples in other languages
# need, and the browser that looks at the server's pages, where they are missing, if this is Debian or
# Ubuntu and it runs as root. Without them those tests are skipped, or fail if CI is set. Each line
# below is a package, and a command that shows whether it is there. Without chromium-headless-shell
# the tests of the pages take the whole browser, and twice the CPU. Without php-illuminate-database, which not every system
# has, the example in Laravel is not run.
set -eu

missing=
while read -r package test; do
	sh -c "$test" >/dev/null 2>&1 || missing="$missing $package"
done <<'END'
python3 command -v python3
nodejs command -v node
php-cli command -v php
ruby command -v ruby
perl perl -MJSON::PP -e 1
npm command -v npm
curl command -v curl
jq command -v jq
systemd command -v systemd-analyze
sqlite3 command -v sqlite3
chromium command -v chromium || command -v chromium-browser || command -v google-chrome
chromium-headless-shell command -v chromium-headless-shell || command -v google-chrome
python3-psycopg /usr/bin/python3 -c 'import psycopg'
python3-psycopg2 /usr/bin/python3 -c 'import psycopg2'
python3-django /usr/bin/python3 -c 'import django'
libdbd-pg-perl perl -MDBD::Pg -e 1
libdbd-sqlite3-perl perl -MDBD::SQLite -e 1
php-pgsql php -r 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);'
php-sqlite3 php -r 'exit(extension_loaded("pdo_sqlite") ? 0 : 1);'
php-mysql php -r 'exit(extension_loaded("pdo_mysql") ? 0 : 1);'
php-illuminate-database php -r 'require "Illuminate/Database/autoload.php";'
python3-pymysql /usr/bin/python3 -c 'import pymysql'
ruby-mysql2 ruby -e 'require "mysql2"'
END
[ -n "$missing" ] || exit 0
needed=$(echo "$missing" | sed 's/ chromium-headless-shell//; s/ php-illuminate-database//')
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	[ -n "$needed" ] || exit 0
	echo "These are missing, and the tests that need them are skipped:$needed" >&2
	exit 1
fi
echo "installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
for package in chromium-headless-shell php-illuminate-database; do
	apt-cache show "$package" >/dev/null 2>&1 || missing=$(echo "$missing" | sed "s/ $package//")
done
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing
