"""Speaks to a broker with nothing but generated code; prints the name of every step that went well."""

import json
import queue
import sys

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

from windlass.v1 import task_pb2, tasks_pb2, tasks_pb2_grpc, worker_pb2, worker_pb2_grpc

channel = grpc.insecure_channel(sys.argv[1])
tasks = tasks_pb2_grpc.TaskServiceStub(channel)
workers = worker_pb2_grpc.WorkerServiceStub(channel)


def submit(**fields):
    return tasks.SubmitTask(tasks_pb2.SubmitTaskRequest(task=task_pb2.NewTask(**fields)))


def get(id):
    return tasks.GetTask(tasks_pb2.GetTaskRequest(id=id))


# The services are found without our files.
database = ProtoReflectionDescriptorDatabase(channel)
services = set(database.get_services())
for service in ["TaskService", "WorkerService", "AdminService"]:
    assert f"windlass.v1.{service}" in services, services
assert "grpc.health.v1.Health" in services, services
described = database.FindFileContainingSymbol("windlass.v1.WorkerService")
assert "Work" in [method.name for method in described.service[0].method]
described = database.FindFileContainingSymbol("windlass.v1.AdminService")
assert {"CreateSchedule", "ListFires", "SetLimit"} <= {method.name for method in described.service[0].method}
described = database.FindFileContainingSymbol("windlass.v1.NewSchedule")
assert described.name == "windlass/v1/schedule.proto", described.name
print("reflection")

health = health_pb2_grpc.HealthStub(channel)
for service in ["", "windlass.v1.WorkerService"]:
    answer = health.Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING, answer
print("health")

submitted = submit(id="one", type="echo", payload_json=json.dumps({"n": 1}).encode(), metadata={"k": "v"})
assert (submitted.id, submitted.state, submitted.existed) == ("one", task_pb2.TASK_STATE_PENDING, False)
assert get("one").payload_json == b'{"n": 1}'
print("submit")

claimed = workers.Claim(worker_pb2.ClaimRequest(worker_id="simple", max=10, wait_seconds=20))
[task] = claimed.tasks
assert (task.id, task.type, task.attempt, dict(task.metadata)) == ("one", "echo", 1, {"k": "v"})
print("claim")

workers.Extend(worker_pb2.ExtendRequest(id=task.id, lease=task.lease, progress=task_pb2.Progress(fraction=0.5)))
workers.Complete(worker_pb2.CompleteRequest(id=task.id, lease=task.lease, result_json=b'"done"'))
done = get("one")
assert (done.state, done.result_json) == (task_pb2.TASK_STATE_COMPLETED, b'"done"'), done
print("complete")

# One stream, fed from a queue.
say = queue.SimpleQueue()
Up = worker_pb2.WorkRequest
stream = workers.Work(iter(say.get, None))
say.put(Up(hello=worker_pb2.Hello(worker_id="streamer", incarnation=4711, types=["echo"])))
assert next(stream).WhichOneof("message") == "welcome"
say.put(Up(credits=worker_pb2.Credits(add=5)))
for n in range(20):
    submit(id=f"s{n}", type="echo", payload_json=b"%d" % n)
seen, batches, acknowledged, sequence = [], {}, set(), 0
while len(acknowledged) < 20:
    message = next(stream)
    if message.WhichOneof("message") == "tasks":
        outcomes = [
            worker_pb2.Outcome(
                id=task.id, lease=task.lease, completed=worker_pb2.Completed(result_json=task.payload_json)
            )
            for task in message.tasks.tasks
        ]
        seen += [task.id for task in message.tasks.tasks]
        sequence += 1
        batches[sequence] = [outcome.id for outcome in outcomes]
        say.put(Up(outcomes=worker_pb2.Outcomes(sequence=sequence, outcomes=outcomes, credits=len(outcomes))))
    elif message.WhichOneof("message") == "ack":
        assert not message.ack.refusals, message
        acknowledged.update(batches[message.ack.sequence])
assert seen == [f"s{n}" for n in range(20)], seen
assert get("s7").result_json == b"7"
say.put(None)
assert list(stream) == []
print("work")

try:
    submit(type="echo", priority=256)
    raise SystemExit("a priority of 256 was accepted")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    info = error_details_pb2.ErrorInfo()
    details = rpc_status.from_call(error).details
    assert any(detail.Unpack(info) for detail in details)
    assert (info.domain, info.reason, info.metadata["field"]) == ("windlass", "out_of_range", "priority"), info
try:
    workers.Complete(worker_pb2.CompleteRequest(id=task.id, lease="1-00000000000000ff"))
    raise SystemExit("a forged lease was accepted")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
try:
    workers.Claim(worker_pb2.ClaimRequest(worker_id="late", wait_seconds=60), timeout=0.2)
    raise SystemExit("a deadline was ignored")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
print("refusals")
