#!/bin/sh
# A worker that stays: dibs work demo --lines --concurrency 8 -- sh worker.sh
#
# The shell does not read JSON. This worker cuts out what it needs: the id and the token are the
# first parts of a line and the payload is the last. It gives the payload on as it is; to look into
# one, use jq. A field named payload in a job's metadata would mislead it.
tell() { printf '{"id":%s,"token":"%s",%s}\n' "$id" "$token" "$1"; }

while IFS= read -r line; do
	id=${line#'{"id":'} id=${id%%,*}
	token=${line#*'"token":"'} token=${token%%\"*}
	kind=${line#*'"kind":"'} kind=${kind%%\"*}
	payload=${line#*'"payload":'} payload=${payload%\}}
	case $kind in
	echo)
		tell '"progress":{"done":1,"total":2}'
		tell '"ending":"completed","result":'"$payload"
		;;
	busy) tell '"ending":"snooze","delay":60' ;;
	flaky) tell '"ending":"retry","error":"the mail server is down, größtenteils"' ;;
	crash) echo "it crashed" >&2 && exit 1 ;;
	*) tell '"ending":"dead","error":"there is no such kind"' ;;
	esac
done
