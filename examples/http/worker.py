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


def call(path, body, timeout=30):
    """Answers with the status and the JSON. Tries again while the server or its database is away."""
    while True:
        request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                return error.code, json.load(error)
        except OSError as error:
            print("dibs:", error, file=sys.stderr)
        if stopping.wait(1):
            sys.exit(1)


def extend(job, done):
    """Keeps the lease until the job is done; without that another worker gets it."""
    while not done.wait(LEASE / 3):
        lease = {"id": job["id"], "token": job["token"]}
        status, answer = call("/v1/extend", {"leases": [lease], "lease": LEASE})
        if status != 200:
            print("dibs:", answer["detail"], file=sys.stderr)
            return


def run(job, handler):
    """Runs one job, and says how it ended."""
    done = threading.Event()
    threading.Thread(target=extend, args=(job, done), daemon=True).start()
    outcome = {"id": job["id"], "token": job["token"]}
    try:
        outcome |= {"ending": "completed", "result": handler(job["payload"])}
    except Exception as error:
        outcome |= {"ending": "retry", "error": repr(error)}
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


def send(payload):
    time.sleep(payload["seconds"])  # longer than the lease
    return {"sent": payload["to"]}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    status, job = call("/v1/jobs", {"queue": "python", "payload": {"to": "ann@example.com", "seconds": 4}})
    print(status, job, flush=True)
    work("python", send)
