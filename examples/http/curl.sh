#!/bin/sh
# The life of a job with curl and jq, on the server at 127.0.0.1:7070.
set -eu

# Enqueue a job.
curl -s --json '{"queue": "emails", "kind": "welcome", "payload": {"to": "ann@example.com"}}' \
  http://127.0.0.1:7070/v1/jobs

# Claim one, and wait up to 20 s if there is none.
curl -s --json '{"queue": "emails", "worker": "shell", "lease": "1m", "wait": "20s"}' \
  http://127.0.0.1:7070/v1/claim > jobs.json
id=$(jq '.jobs[0].id' jobs.json) token=$(jq -r '.jobs[0].token' jobs.json)

# It takes long: extend the lease, and say how far it is.
curl -s --json "{\"leases\": [{\"id\": $id, \"token\": \"$token\", \"progress\": {\"done\": 1, \"total\": 2}}], \"lease\": \"1m\"}" \
  http://127.0.0.1:7070/v1/extend

# It is done.
curl -s --json "{\"outcomes\": [{\"id\": $id, \"token\": \"$token\", \"ending\": \"completed\", \"result\": {\"sent\": true}}]}" \
  http://127.0.0.1:7070/v1/finish

# Look at it, or wait for its end.
curl -s "http://127.0.0.1:7070/v1/jobs/$id/wait?timeout=20"

# Many jobs, line by line, with one answer a line.
printf '{"queue": "index", "payload": %d}\n' 1 2 3 |
  curl -sT - -X POST -H 'Content-Type: application/x-ndjson' http://127.0.0.1:7070/v1/jobs/stream

# Jobs that come after others of the same call, which have a ref.
curl -s --json '{"jobs": [{"queue": "pages", "payload": 1, "ref": "page"}, {"queue": "books", "after": ["page"]}]}' \
  http://127.0.0.1:7070/v1/jobs/batch

# A part of a job that later attempts must not do again: write the step, and read those that are done.
curl -s --json '{"queue": "orders", "payload": "order 7"}' http://127.0.0.1:7070/v1/jobs > /dev/null
curl -s --json '{"queue": "orders", "worker": "till-1", "lease": "1m"}' http://127.0.0.1:7070/v1/claim > order.json
lease=$(jq -c '.jobs[0] | {id, token}' order.json)
echo "$lease" | jq -c '. + {step: "charge", value: {receipt: "r-17"}}' | curl -s --json @- http://127.0.0.1:7070/v1/steps
curl -s --json "$lease" http://127.0.0.1:7070/v1/steps/list
