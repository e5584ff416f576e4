#!/usr/bin/env python3
"""A worker that stays: dibs work demo --lines --concurrency 8 -- python3 worker.py"""
import json, sys

def tell(job, **what):
    print(json.dumps({"id": job["id"], "token": job["token"], **what}), flush=True)

def work(job):
    match job["kind"]:
        case "echo":
            tell(job, progress={"done": 1, "total": 2})
            return {"ending": "completed", "result": job["payload"]}
        case "busy": return {"ending": "snooze", "delay": 60}
        case "flaky": raise RuntimeError("the mail server is down, größtenteils")
        case "crash": sys.exit("it crashed")
    return {"ending": "dead", "error": "there is no such kind"}

sys.stdin.reconfigure(encoding="utf-8")
for line in sys.stdin:
    job = json.loads(line)
    try:
        tell(job, **work(job))
    except Exception as error:
        tell(job, ending="retry", error=str(error))
