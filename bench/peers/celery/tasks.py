"""The application that Celery's workers and producers share."""

import os
import time

from celery import Celery

app = Celery("bench", broker=f"redis://127.0.0.1:{os.environ['PEERS_REDIS_PORT']}/0")
app.conf.update(
    task_default_queue="bench",
    # Acknowledged when it is done, so that a dead worker loses nothing, and no result, as in the other queues.
    task_acks_late=True,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
)

LATENCIES = os.environ.get("PEERS_LATENCIES")


@app.task
def nothing(at, data):
    # The first task of a worker has no time.
    if LATENCIES and int(at) > 0:
        late = max(0, int(time.time() * 1_000_000) - int(at))
        with open(LATENCIES, "a") as file:
            file.write(f"{late}\n")
