"""Drives RQ's producers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import load


def make_sender(port):
    from redis import Redis
    from rq import Queue

    queue = Queue("bench", connection=Redis(port=port))
    # No result is kept, as in the other queues.
    options = {"result_ttl": 0, "failure_ttl": 0}

    def send(payloads):
        if len(payloads) == 1:
            queue.enqueue("handlers.nothing", kwargs=payloads[0], **options)
        else:
            jobs = [Queue.prepare_data("handlers.nothing", kwargs=payload, **options) for payload in payloads]
            queue.enqueue_many(jobs)

    return send


if __name__ == "__main__":
    load.main(make_sender)
