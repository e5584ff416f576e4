"""Enqueues a job and works its queue, with Python's standard library alone. Ends well on SIGTERM."""
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("DIBS_URL", "http://127.0.0.1:7070")
HEADERS = {"Content-Type": "application/json"}
if "DIBS_TOKEN" in os.environ:
    HEADERS["Authorization"] = "Bearer " + os.environ["DIBS_TOKEN"]
LEASE = 3  # seconds
stopping = threading.Event()


def ask(path, body, timeout):
    """Answers with the status and the JSON; 503 stands also for a server that is away."""
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {"detail": str(error)} if error.code == 503 else json.load(error)
    except OSError as error:
        return 503, {"detail": str(error)}


def call(path, body):
    """Asks again while the server or its database is away."""
    while True:
        status, answer = ask(path, body, 30)
        if status != 503:
            return status, answer
        print("dibs:", answer["detail"], file=sys.stderr)
        if stopping.wait(1):
            sys.exit(1)


def set_after(seconds, event):
    """Sets an event later, unless the timer is cancelled."""
    timer = threading.Timer(seconds, event.set)
    timer.daemon = True
    timer.start()
    return timer


def extend(job, done, stop):
    """Keeps the lease until the job is done. Sets stop when the job is cancelled, runs for longer than its queue allows,
    or may go to another worker: the lease is lost, or has ended while the server was away."""
    end = set_after(LEASE, stop)
    while not done.wait(LEASE / 3):
        asked = time.monotonic()
        lease = {"id": job["id"], "token": job["token"]}
        status, answer = ask("/v1/extend", {"leases": [lease], "lease": LEASE}, LEASE)
        if status != 200:
            print("dibs:", answer["detail"], file=sys.stderr)
        if status == 503:
            continue
        if status != 200:
            stop.set()
            break
        end.cancel()
        end = set_after(asked + LEASE - time.monotonic(), stop)
        lease = answer["leases"][0]
        if lease.get("cancelled"):
            job["cancelled"] = True
        if lease.get("cancelled") or lease.get("timed_out"):
            stop.set()
    end.cancel()


def run(job, handler):
    """Runs one job, and says how it ended."""
    done, stop = threading.Event(), threading.Event()
    threading.Thread(target=extend, args=(job, done, stop), daemon=True).start()
    outcome = {"id": job["id"], "token": job["token"]}
    try:
        outcome |= {"ending": "completed", "result": handler(job["payload"], stop)}
    except Exception as error:
        outcome |= {"ending": "cancelled" if job.get("cancelled") else "retry", "error": repr(error)}
    done.set()
    status, answer = call("/v1/finish", {"outcomes": [outcome]})
    if status != 200:  # the lease was lost: another worker has the job
        print("dibs:", answer["detail"], file=sys.stderr)


def work(queue, handler):
    name = "python-%d" % os.getpid()
    while not stopping.is_set():
        status, answer = call("/v1/claim", {"queue": queue, "worker": name, "lease": LEASE, "wait": 20})
        if status != 200:
            sys.exit(answer["title"] + ": " + answer.get("detail", ""))
        for job in answer["jobs"]:
            run(job, handler)


def send(payload, stop):
    if stop.wait(payload["seconds"]):  # longer than the lease
        raise InterruptedError("told to stop")
    return {"sent": payload["to"]}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    status, job = call("/v1/jobs", {"queue": "python", "payload": {"to": "ann@example.com", "seconds": 4}})
    print(status, job, flush=True)
    work("python", send)
