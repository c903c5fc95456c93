"""What schemathesis cannot read from the document. Every exception has its reason."""

import re
import sys
from datetime import datetime, timezone
from pathlib import Path

import schemathesis
from hypothesis import strategies as st
from schemathesis.generation.meta import StatefulPhaseData

sys.path.insert(0, str(Path(__file__).parent))
import known  # noqa: E402

# Rules that a schema cannot express: the field that the problem names, its message, and why a request is refused although
# the schema allows it.
EXPLAINED = [
    (r".*", r"floating point `-?[0-9.e+]+`, expected", "JSON Schema takes 1.0 for a whole number; it is written as 1 here"),
    (r"cron", r"", "the language of cron patterns is more than a regular expression"),
    (r"timezone", r"", "the names of time zones come from a database"),
    (r"filter", r"", "the language of filters is more than a regular expression"),
    (r"cursor", r"is not a cursor of this list", "a cursor is sealed by the broker that wrote it"),
    (r"(.*\.)?(payload|result)_base64", r"is given besides (payload|result)", "either JSON or bytes"),
    (r"(.*\.)?delay_seconds", r"is given besides scheduled_at", "either a delay or a time"),
    (r"(.*\.)?(unique_for_seconds|on_conflict)", r"needs a unique_key", "both say how the key is used"),
    (r"(.*\.)?unique_key", r"must be 1 to 256 bytes long", "counted in bytes, where a schema counts characters"),
    (r"progress\.note|by|host|version", r"must be at most \d+ bytes", "counted in bytes, where a schema counts characters"),
    (r"(.*\.)?metadata", r"has \d+ bytes, \d+ are allowed", "the bytes of all entries together"),
    (r"(.*\.)?dependencies", r"there is no task|was cancelled", "a task depends on tasks that exist"),
    (r"(tasks\..+|then)\.after", r"there is no task|runs after all others", "names other tasks of the graph"),
    (r"tasks", r"in a cycle|two tasks of the name", "a graph has no cycles, and one of its tasks may be named by `then`"),
    (r"types", r"times the number of queues must be at most", "the product of two lists is bounded"),
    (r"worker_id", r"is another worker than the one in the path", "the body repeats the path"),
    (r"id", r"is not the one in the path|is missing", "the id of a schedule is in the path, in the body, or in both"),
    (r"ids", r"is given besides all or a filter", "either ids or all"),
    (r"all", r"must be true unless ids are given", "either ids or all"),
    (r"priority", r"is missing|belongs to set_priority", "only one action has a priority"),
    (r"queue", r"is missing|belongs to move", "only one action has a queue"),
    (r"weight", r"is of keys", "depends on the scope in the path"),
    (r"ageing", r"is of queues", "depends on the scope in the path"),
    (r"ends_at", r"is before starts_at|is before the next time", "compared with another field"),
    (r"state", r"all dead letters are in one state", "lists of tasks and dead letters have the same parameters"),
    (r"series", r"is not recorded for single queues", "depends on another parameter"),
    (r"from", r"must lie before to", "compared with another parameter"),
]

# Problems that say nothing about the request.
CODES = {
    "upgrade_required": "schemathesis does not open WebSockets",
    "queue_full": "an earlier request gave the queue a limit",
    "too_many_operations": "operations of earlier requests are under way",
}

# Times that every task may have: after 1970, and less than ten years from now.
schemathesis.openapi.format(
    "date-time",
    st.integers(min_value=0, max_value=2_000_000_000).map(
        lambda second: datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    ),
)

NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._:-]{1,128}")
SPAN = re.compile(r"[0-9]{1,19}(ms|s|m|h)?")
LEASE = re.compile(r"[0-9a-f]{1,16}-[0-9a-f]{16}")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces valid values by other valid ones, so that what the request was made to show stays the same."""
    # A sequence of requests is about what its first request created.
    if not isinstance(case.meta and case.meta.phase.data, StatefulPhaseData):
        meet_what_exists(case)
    wait_for_nothing(case)


def meet_what_exists(case):
    """Most names that are drawn do not exist: two of three are replaced by names that do."""
    path = case.operation.path
    leases = known.LEASES.get(path)
    if leases and isinstance(case.body, dict) and NAME.fullmatch(str(case.path_parameters.get("id"))):
        lease = case.body.get("lease")
        if isinstance(lease, str) and LEASE.fullmatch(lease):
            case.path_parameters["id"], case.body["lease"] = leases.pop()
        return
    for start, names in known.NAMES.items():
        for name, values in names.items() if path.startswith(start) else ():
            given = (case.path_parameters or {}).get(name)
            if isinstance(given, str) and NAME.fullmatch(given) and known.drawn(given) % 3:
                case.path_parameters[name] = values[known.drawn(given) % len(values)]


def wait_for_nothing(case):
    """Some requests may wait for a minute. Whether they are accepted does not depend on how long."""
    wait = (case.query or {}).get("wait")
    if isinstance(wait, str) and SPAN.fullmatch(wait):
        case.query["wait"] = "0s"
    if case.operation.path == "/api/v1/claim" and isinstance(case.body, dict):
        seconds = case.body.get("wait_seconds")
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
            case.body["wait_seconds"] = 0.001


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Whether a failure counts."""
    try:
        answer = response.json()
    except ValueError:
        return True
    if not isinstance(answer, dict):
        return True
    if "not_a_server_error" in failure.checks or "positive_data_acceptance" in failure.checks:
        return not explained(answer)
    if "use_after_free" in failure.checks:
        # DELETE cancels a task. It can be looked at as long as it is kept, unless `purge` is given.
        return not case.operation.path.startswith("/api/v1/tasks/{id}")
    if "negative_data_rejection" in failure.checks and case.operation.path == "/api/v1/tasks/batch":
        # Every task of a batch is refused on its own, in an answer with status 200.
        return not any("error" in result for result in answer.get("results", []))
    return True


def explained(problem):
    errors = problem.get("errors") or []
    fits = lambda error, rule: re.fullmatch(rule[0], error["field"]) and re.search(rule[1], error["message"])  # noqa: E731
    return problem.get("code") in CODES or bool(errors) and all(
        any(fits(error, rule) for rule in EXPLAINED) for error in errors
    )
