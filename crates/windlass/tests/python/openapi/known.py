"""Things that exist in the broker under test, so that generated requests meet more than 404."""

import os
import zlib

import requests

URL = os.environ["WINDLASS_URL"]
RUNNING = 100  # tasks for every kind of report
SCHEDULES = [f"known-schedule-{number}" for number in range(20)]  # enough to delete some


def call(method, path, body=None):
    answer = requests.request(method, URL + path, json=body, timeout=20)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def submit(name, **fields):
    call("POST", "/api/v1/tasks", {"id": name, "type": "known", **fields})
    return name


def claim(queue, count):
    # Not a worker that requests name: a heartbeat of it could give its leases away.
    body = {"worker_id": "known-holder", "queues": [queue], "max": count, "lease_seconds": 3600}
    return {task["id"]: task["lease"] for task in call("POST", "/api/v1/claim", body)["tasks"]}


def report(name, lease, kind, **fields):
    call("POST", f"/api/v1/tasks/{name}/{kind}", {"lease": lease, **fields})


# Tasks in every state that lasts.
submit("known-pending", queue="known-waiting", payload={"n": 1}, metadata={"a": "b"}, unique_key="known")
submit("known-scheduled", delay_seconds=86400, payload_base64="AAE=")
submit("known-blocked", dependencies=["known-scheduled"])
submit("known-cancelled")
call("POST", "/api/v1/tasks/known-cancelled/cancel")
for name in ["known-completed", "known-dead", "known-retrying"]:
    submit(name, queue="known-work")
leases = claim("known-work", 3)
report("known-completed", leases["known-completed"], "complete", result=[1])
report("known-dead", leases["known-dead"], "fail", error="it is broken", retryable=False)
report("known-retrying", leases["known-retrying"], "fail", error="it is late", retry_after_seconds=86400)
call("POST", "/api/v1/workflows", {"id": "known-flow", "tasks": {"a": {"type": "known"}, "b": {"type": "known", "after": ["a"]}}})
for schedule in SCHEDULES:
    call("POST", "/api/v1/schedules", {"id": schedule, "cron": "@yearly", "task": {"type": "known", "queue": "known-slots"}})
    call("POST", f"/api/v1/schedules/{schedule}/run")
call("PUT", "/api/v1/limits/queue/known-waiting", {"max_concurrency": 5, "ageing": {"every_seconds": 60}})
call("PUT", "/api/v1/limits/key/known-key", {"rate": {"count": 5, "per_seconds": 1}, "weight": 2})
call("POST", "/api/v1/workers/known-worker/heartbeat", {"incarnation": 1, "queues": ["known-work"], "slots": 4})
operation = call("POST", "/api/v1/operations", {"action": "retry", "filter": "type:unknown"})["id"]

TASKS = ["pending", "scheduled", "blocked", "cancelled", "completed", "dead", "retrying"]

# What may stand in a path, by what the path begins with.
NAMES = {
    "/api/v1/tasks/": {"id": [f"known-{state}" for state in TASKS] + ["known-flow:b"]},
    "/api/v1/queues/": {"name": ["known-waiting", "known-work", "default"]},
    "/api/v1/workers/": {"id": ["known-worker"]},
    "/api/v1/workflows/": {"id": ["known-flow"]},
    "/api/v1/schedules/": {"id": SCHEDULES},
    "/api/v1/operations/": {"id": [operation]},
    "/api/v1/limits/": {"name": ["known-waiting", "known-key"]},
}

# Running tasks with their leases: a report ends the task, so each is used once.
LEASES = {}
for kind in ["extend", "complete", "fail", "release"]:
    tasks = [{"id": f"known-{kind}-{number}", "type": "known", "queue": f"known-{kind}"} for number in range(RUNNING)]
    call("POST", "/api/v1/tasks/batch", {"tasks": tasks})
    LEASES[f"/api/v1/tasks/{{id}}/{kind}"] = sorted(claim(f"known-{kind}", RUNNING).items())


def drawn(text):
    """A number that depends on nothing but the text, so that a run can be repeated."""
    return zlib.crc32(repr(text).encode())
