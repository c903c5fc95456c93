"""Drives Celery's producers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import load


def make_sender(port):
    os.environ["PEERS_REDIS_PORT"] = str(port)
    from tasks import app, nothing

    connection = app.connection_for_write()
    producer = app.amqp.Producer(connection)

    def send(payloads):
        for payload in payloads:
            nothing.apply_async(kwargs=payload, producer=producer)

    return send


if __name__ == "__main__":
    load.main(make_sender)
