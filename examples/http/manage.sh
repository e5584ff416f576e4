#!/bin/sh
# Looking at jobs and changing them, queues and schedules, on the server at 127.0.0.1:7070. Below each call is its
# answer, or the beginning of it, from a new database.
set -eu
curl -s --json '{"jobs": [{"queue": "news"}, {"queue": "news"}]}' http://127.0.0.1:7070/v1/jobs/batch > added.json
a=$(jq '.jobs[0].id' added.json) b=$(jq '.jobs[1].id' added.json)
curl -s 'http://127.0.0.1:7070/v1/jobs?queue=news&limit=10'
# {"jobs":[{"id":2,

curl -s --json "{\"ids\": [$a, $b], \"priority\": 1, \"run_at\": \"2030-01-01T08:00:00Z\"}" http://127.0.0.1:7070/v1/jobs/edit
# {"ids":[1,2],"unknown":[]}
curl -s --json "{\"ids\": [$a, $b, 999999]}" http://127.0.0.1:7070/v1/jobs/cancel
# {"ended":[1,2],"asked":[],"unknown":[999999]}
curl -s --json "{\"ids\": [$a]}" http://127.0.0.1:7070/v1/jobs/requeue
# {"ids":[1],"unknown":[]}
curl -s 'http://127.0.0.1:7070/v1/jobs?queue=news'
# {"jobs":[{"id":1,
curl -s 'http://127.0.0.1:7070/v1/jobs?queue=news&state=cancelled'
# {"jobs":[{"id":2,
curl -s --json '{"queue": "news", "state": "completed", "older_than": "7d"}' http://127.0.0.1:7070/v1/jobs/prune
# {"pruned":0}

curl -s -X PATCH --json '{"concurrency": 10, "rate": {"n": 100, "per": "1m"}}' http://127.0.0.1:7070/v1/queues/news
# {"name":"news","paused":false,"concurrency":10,"rate":{"n":100,"per":60,"burst":0},
curl -s -X PATCH --json '{"limit": 2}' http://127.0.0.1:7070/v1/queues/news/groups/ann
# {"name":"ann","limit":2}

curl -s -X PUT --json '{"spec": "0 8 * * mon-fri", "zone": "Europe/Berlin", "queue": "news", "kind": "digest"}' \
  http://127.0.0.1:7070/v1/schedules/digest
# {"name":"digest","spec":"0 8 * * mon-fri","zone":"Europe/Berlin","queue":"news","kind":"digest",
curl -s -X PATCH --json '{"paused": true}' http://127.0.0.1:7070/v1/schedules/digest
# {"name":"digest",
curl -s -X POST http://127.0.0.1:7070/v1/schedules/digest/run
# {"id":3}
