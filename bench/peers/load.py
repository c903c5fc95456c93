"""The producers of the Python queues. Each prints one line of JSON when it has ended."""

import argparse
import json
import multiprocessing
import threading
import time

PAYLOAD_BYTES = 200
# Two interpreters: one holds its lock on one core.
PROCESSES = 2


def payload(at=0):
    """200 bytes that say when they were due, in microseconds."""
    head = {"at": f"{at:016d}", "data": ""}
    head["data"] = "x" * (PAYLOAD_BYTES - len(json.dumps(head, separators=(",", ":"))))
    return head


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["submit", "fill", "pace"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cold", action="store_true", help="submit nothing before the time begins")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=int, default=0)
    return parser.parse_args()


def main(make_sender):
    """`make_sender(port)` opens a connection and gives a function that submits a list of payloads."""
    given = arguments()
    {"submit": submit, "fill": fill, "pace": pace}[given.role](make_sender, given)


def submit(make_sender, given):
    processes = min(PROCESSES, given.connections)
    ready, found = multiprocessing.Barrier(processes + 1), multiprocessing.Queue()
    for place in range(processes):
        connections = len(range(place, given.connections, processes))
        process = multiprocessing.Process(target=produce, args=(make_sender, given, connections, ready, found))
        process.start()
    ready.wait()
    began = time.time()
    latencies, cpu = [], 0.0
    for _ in range(processes):
        more, used = found.get()
        latencies += more
        cpu += used
    report(len(latencies) * given.batch, time.time() - began, cpu, latencies)


def produce(make_sender, given, connections, ready, found):
    """One process with a thread for each connection."""
    senders = [make_sender(given.port) for _ in range(connections)]
    batch = [payload()] * given.batch
    for send in [] if given.cold else senders:
        send([payload()])
    latencies = []

    def loop(send, until):
        sent = time.time()
        while sent < until:
            send(batch)
            done = time.time()
            latencies.append((done - sent) * 1000)
            sent = done

    ready.wait()
    used, until = time.process_time(), time.time() + given.seconds
    threads = [threading.Thread(target=loop, args=(send, until)) for send in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put((latencies, time.process_time() - used))


def fill(make_sender, given):
    send, done = make_sender(given.port), 0
    used, began = time.process_time(), time.time()
    while done < given.count and (done == 0 or time.time() < began + given.seconds):
        batch = min(100, given.count - done)
        send([payload()] * batch)
        done += batch
    report(done, time.time() - began, time.process_time() - used, [])


def pace(make_sender, given):
    """One task at each of the moments that the rate fixes beforehand, late or not."""
    send = make_sender(given.port)
    used, began = time.process_time(), time.time() + 0.1
    total = round(given.rate * given.seconds)
    for number in range(total):
        due = began + number / given.rate
        early = due - time.time()
        if early > 0:
            time.sleep(early)
        send([payload(int(due * 1_000_000))])
    report(total, time.time() - began, time.process_time() - used, [])


def report(operations, seconds, cpu, latencies):
    latencies.sort()

    def at(share):
        return latencies[max(0, -int(-len(latencies) * share // 1) - 1)] if latencies else 0.0

    latency = {"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1)}
    print(json.dumps({"operations": operations, "seconds": seconds, "cpu_seconds": cpu, "latency": latency}))
