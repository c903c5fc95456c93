"""A worker that takes two tasks with leases of ten minutes, names them, and does nothing more."""

import queue
import sys

import grpc

from windlass.v1 import worker_pb2, worker_pb2_grpc

say = queue.SimpleQueue()
stream = worker_pb2_grpc.WorkerServiceStub(grpc.insecure_channel(sys.argv[1])).Work(iter(say.get, None))
say.put(worker_pb2.WorkRequest(hello=worker_pb2.Hello(worker_id="holder", incarnation=1, lease_seconds=600)))
say.put(worker_pb2.WorkRequest(credits=worker_pb2.Credits(add=2)))
for message in stream:
    for task in message.tasks.tasks:
        print(task.id, flush=True)
