#!/usr/bin/env python3
"""A worker whose jobs add jobs, read what came before them, and have steps that later attempts do not do again:
dibs work books --lines --concurrency 8 -- python3 flow.py, or with --shared"""
import json, sys

aside = {}  # with --shared: jobs whose lines came while another one waited for an answer

def tell(job, **what):
    print(json.dumps({"id": job["id"], "token": job["token"], **what}), flush=True)

def ask(job, **what):
    """Writes a question about the job, and reads lines until its answer comes."""
    tell(job, **what)
    for line in iter(sys.stdin.readline, ""):
        answer = json.loads(line)
        if answer["id"] == job["id"]:
            if error := answer.get("error") or answer.get("stop"):
                raise RuntimeError(error)
            return answer
        if "stop" not in answer:
            aside[answer["id"]] = answer
        elif aside.pop(answer["id"], None):
            tell(answer, ending="release")
    sys.exit("dibs has ended")

def step(job, name, do):
    """What do() has returned, in this attempt or in an earlier one."""
    done = job.get("steps", {})
    if name in done:
        return done[name]
    value = do()
    ask(job, step=name, value=value)
    return value

def before(job):
    """The jobs that this one comes after, with those that they have added."""
    page = {"next": 0}
    while "next" in page:
        page = ask(job, before={"after": page["next"]})["before"]
        yield from page["jobs"]

def work(job):
    match job["kind"]:
        case "split":  # a job for each line of the book
            add = [{"queue": job["queue"], "kind": "count", "payload": line} for line in job["payload"]]
            return {"ending": "completed", "add": add}
        case "count": return {"ending": "completed", "result": len(job["payload"])}
        case "sum":
            letters = sum(other["result"] for other in before(job) if other["kind"] == "count")
            return {"ending": "completed", "result": letters}
        case "order":
            receipt = step(job, "charge", lambda: "receipt of %s" % job["payload"])
            return {"ending": "completed", "result": receipt}
    return {"ending": "dead", "error": "there is no such kind"}

def jobs():
    while aside or (line := sys.stdin.readline()):
        job = aside.pop(next(iter(aside))) if aside else json.loads(line)
        if "stop" not in job:  # the job has been answered
            yield job

sys.stdin.reconfigure(encoding="utf-8")
for job in jobs():
    try:
        tell(job, **work(job))
    except Exception as error:
        tell(job, ending="retry", error=str(error))
