#!/bin/sh
# Tries dibs on a Galera cluster of three nodes of this machine: what the store stands on, the conformance suite, calls that go from
# node to node, and a torture in which nodes are killed, stopped, frozen and cut off, for DIBS_CLUSTER_FOR (2m). As root, on Linux,
# each node has a network namespace of its own; elsewhere nodes are not cut off.
set -eu
cd "$(dirname "$0")/.."
DIBS_MARIADB_BIN=$(scripts/mariadb.sh)
export DIBS_MARIADB_BIN DIBS_CLUSTER=1 DIBS_NIGHT=1
if [ ! -e /usr/lib/galera/libgalera_smm.so ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends galera-4 rsync iproute2 >&2
fi
go test -count=1 -v -timeout 30m ./mysql -run 'Galera|OnACluster|ToAnotherNode|CommittedAnywhere|ForAnotherNode'
go test -count=1 -v -timeout 60m ./cmd/dibs/internal/torture -run OnACluster
