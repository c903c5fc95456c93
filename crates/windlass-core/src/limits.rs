//! Every limit of the system in one place, each with its reason.

/// Ids, queue, type and worker names: long enough for a URN, short enough for an index key.
pub const NAME_BYTES_MAX: usize = 128;
/// A unique key: long enough for a URL or a few ids in one.
pub const UNIQUE_KEY_BYTES_MAX: usize = 256;
/// Default ceiling of one payload or result (10 MB); a setting may lower or raise it up to [`PAYLOAD_BYTES_CAP`].
pub const PAYLOAD_BYTES_MAX: usize = 10 * 1000 * 1000;
/// No setting goes beyond this: one task must fit well inside one batch of the log.
pub const PAYLOAD_BYTES_CAP: usize = 32 * 1024 * 1024;
/// JSON nesting accepted in a body: beyond it, most readers' stacks are at risk.
pub const JSON_DEPTH_MAX: usize = 128;
/// Tasks in one batch submit.
pub const BATCH_TASKS_MAX: usize = 1000;
/// Tasks handed out by one claim.
pub const CLAIM_TASKS_MAX: u32 = 1000;
/// Queues and types one claim may name.
pub const CLAIM_NAMES_MAX: usize = 256;
/// Pairs of queue and type one claim may stand for: a waiting claim is entered under each.
pub const CLAIM_PAIRS_MAX: usize = 4096;
/// Expired tasks that one claim cancels on its way; the next claim goes on from there.
pub const CLAIM_EXPIRED_MAX: usize = 1000;
/// A claim's weight for one queue.
pub const CLAIM_WEIGHT_MAX: u32 = 1000;
/// The longest long poll: proxies cut idle requests at about a minute.
pub const WAIT_MS_MAX: u64 = 60_000;
/// Claims waiting at once, over all clients.
pub const WAITERS_MAX: usize = 100_000;
/// Finished tasks a worker holds whose outcome the broker has not answered, by number and by the bytes of their results:
/// enough to keep the broker busy for some commits, and what a worker can hold while the broker is away.
pub const OUTCOMES_KEPT_MAX: usize = 4000;
pub const OUTCOMES_KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Leases a worker may name in one beat or hello: all it can hold, which is [`OUTCOMES_KEPT_MAX`] and its slots.
pub const LEASES_NAMED_MAX: usize = 10_000;
/// Metadata of one task: entries and bytes in all.
pub const METADATA_ENTRIES_MAX: usize = 64;
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Error text kept for an attempt: a stack trace fits, a log file does not.
pub const ERROR_BYTES_MAX: usize = 16 * 1024;
/// The note of a progress report.
pub const PROGRESS_NOTE_BYTES_MAX: usize = 1024;
/// What a worker may save of its work: a position and some counts fit, the work itself belongs elsewhere.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;
/// Attempts kept per task; older ones are dropped, their count stays in `attempts`.
pub const ATTEMPTS_KEPT_MAX: usize = 32;
/// Retries a task may ask for.
pub const RETRIES_MAX: u32 = 1000;
/// Attempts that may end by a lost lease before the task is a dead letter, unless the task says otherwise.
pub const CRASHES_DEFAULT: u32 = 5;
pub const RETRIES_DEFAULT: u32 = 3;
pub const TIMEOUT_MS_DEFAULT: u64 = 300_000;
/// A day: longer work should checkpoint and continue in another task.
pub const TIMEOUT_MS_MAX: u64 = 86_400_000;
pub const LEASE_MS_DEFAULT: u64 = 30_000;
pub const LEASE_MS_MIN: u64 = 1000;
pub const LEASE_MS_MAX: u64 = 3_600_000;
/// Finished tasks are kept for a week by default, ten years at most.
pub const RETENTION_MS_DEFAULT: u64 = 7 * 86_400_000;
pub const RETENTION_MS_MAX: u64 = HORIZON_MS;
/// No time further away than ten years: beyond that it is a unit mistake (seconds taken for milliseconds).
pub const HORIZON_MS: u64 = 3650 * 86_400_000;
/// Rows of one page of a list, and records looked at for one page when a filter has no index.
pub const PAGE_ROWS_MAX: usize = 1000;
pub const PAGE_ROWS_DEFAULT: usize = 100;
pub const PAGE_SCAN_MAX: usize = 20_000;
/// Payloads and results in one answer of a store: a page, a claim or a step of a loop ends early when it has this much.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Distinct pairs of queue and type that have tasks: each owns a small structure in memory.
pub const LANES_MAX: usize = 1_000_000;
/// Names without tasks (queues, and pairs of queue and type) that are kept for a while after their last task. More of them are
/// released at once: they take memory, and a list of so many queues shows nobody what was in use a moment ago.
pub const NAMES_IDLE_MAX: usize = 1000;
/// Names that are released at a time: a few milliseconds during which the store does nothing else.
pub const NAMES_RELEASED_MAX: usize = 5000;
/// How often names without tasks are looked for. One that is found twice is released.
pub const NAMES_RELEASE_MS: u64 = 10 * 60 * 1000;
/// A filter: its text, its words, and the values of one word. People write less, and every task of a list is held
/// against all of it.
pub const FILTER_BYTES_MAX: usize = 8192;
pub const FILTER_WORDS_MAX: usize = 32;
pub const FILTER_VALUES_MAX: usize = 200;
/// Operations of a store, those that ended included: the oldest of these make room. All are kept in memory.
pub const OPERATIONS_MAX: usize = 1000;
/// Operations under way at once: they take turns.
pub const OPERATIONS_RUNNING_MAX: usize = 16;
/// How long an operation that ended can be looked at.
pub const OPERATION_RETENTION_MS: u64 = 90 * 86_400_000;
/// Who asked for an operation, as they say.
pub const OPERATION_BY_BYTES_MAX: usize = 256;
/// Pages that are counted before an operation begins or in place of it; what lies beyond is only said to be there.
pub const OPERATION_COUNT_PAGES_MAX: usize = 25;
/// Tasks that are shown in place of an operation.
pub const OPERATION_SAMPLE_MAX: usize = 10;
/// Dead letters that are looked at to group them, and pages that are read for it: the newest are what people come for, and
/// nobody waits for a million.
pub const DEAD_GROUPS_SCAN_MAX: usize = 10_000;
pub const DEAD_GROUPS_PAGES_MAX: usize = 40;
/// The error that is shown for a group.
pub const DEAD_GROUPS_SAMPLE_BYTES_MAX: usize = 2048;
/// What happened to tasks and waits to become spans: some seconds of a busy broker. Beyond it is dropped and counted.
pub const TRACE_FACTS_MAX: usize = 16_384;
/// Spans in one request to a collector.
pub const TRACE_BATCH_MAX: usize = 512;
/// Tasks whose trace is remembered, so that their records need not be read again.
pub const TRACE_TASKS_MAX: usize = 20_000;
/// The error of an attempt that goes with its span.
pub const TRACE_ERROR_BYTES_MAX: usize = 1024;
/// Triples of queue, type and key with live tasks: each owns a small structure in memory.
pub const SHARES_MAX: usize = 1_000_000;
/// Limits on queues, types and keys: all of them are kept in memory.
pub const LIMITS_MAX: usize = 200_000;
/// A script of the store on Redis keeps all others from it. So a limit that opens puts back this many lanes and shares in one call, a queue that
/// begins or ends to age turns over so many shares, and a claim that finds nothing passes so many that are shut: a few milliseconds
/// each. What is left is for the next call.
pub const PLACES_OPENED_MAX: usize = 200;
pub const SHARES_TURNED_MAX: usize = 200;
pub const SHUT_MET_MAX: usize = 500;
/// The weight of a key: beyond it a round of the others is too long to call it a share.
pub const LIMIT_WEIGHT_MAX: u32 = 1000;
/// Starts that a rate allows in its window, and how long a window may be.
pub const RATE_COUNT_MAX: u32 = 1_000_000_000;
pub const RATE_MS_MAX: u64 = 31 * 86_400_000;
/// How long a step of priority may take to gain by waiting: beyond a month it is a unit mistake.
pub const AGEING_MS_MAX: u64 = 31 * 86_400_000;
/// Gates and lanes looked at to find out who waits for a token that has come. Beyond it, somebody who waits moves the time on.
pub const GATES_LOOK_MAX: usize = 1_000;
/// Running tasks looked at to name some that hold a limit, and how many are named.
pub const HOLDERS_SCAN_MAX: usize = 1_000;
pub const HOLDERS_NAMED_MAX: usize = 3;
/// Tasks that claims found expired and nobody has asked about yet: a broker asks at once.
pub const LAPSED_MAX: usize = 10_000;
/// Types and queues with series of their own on the metrics page: each is dozens of time series to whoever scrapes. The others
/// are added up under one name.
pub const METRICS_NAMES_MAX: usize = 200;
/// Queues whose rates are counted apart: each takes two kilobytes.
pub const RATED_QUEUES_MAX: usize = 1000;
/// Queues that are recorded apart: a week of each takes a quarter of a megabyte.
pub const RECORDED_QUEUES_MAX: usize = 32;
/// Points of one recorded series in one answer: more than a screen has room for.
pub const RANGE_POINTS_MAX: usize = 1000;
/// Workers in the registry.
pub const WORKERS_MAX: usize = 100_000;
/// Records one step of a loop takes: small enough to stay invisible between two commits.
pub const LOOP_STEP_MAX: usize = 1000;
/// How often a decision is made again when the task changed meanwhile.
pub const CONFLICT_TRIES_MAX: usize = 16;
/// How long a submit is decided again that meets others, where several processes share a store: long enough for hundreds of
/// clients that replace one task, and shorter than a client waits.
pub const CONFLICT_MS_MAX: u64 = 5_000;
/// How long a submit waits for its turn with a unique key while none of those before it is done, and in all: a store that does
/// not answer must not hold up the line. Then it continues all the same, which may cost it more tries.
pub const KEY_TURN_MS_MAX: u64 = 5_000;
pub const KEY_LINE_MS_MAX: u64 = 15_000;
/// Tasks that one task may depend on: a fan-in of this many is one list of ids in its body.
pub const DEPENDENCIES_MAX: usize = 10_000;
/// Dependencies of all tasks of one batch: each is looked up while everybody else waits for the state.
pub const BATCH_DEPENDENCIES_MAX: usize = 20_000;
/// Dependencies that a task shows with itself; all of them are a list of their own.
pub const DEPENDENCIES_SHOWN_MAX: usize = 100;
/// Nodes of a workflow, and their dependencies in all, those on tasks outside of it included: the graph is one commit and
/// one entry of the log.
pub const WORKFLOW_TASKS_MAX: usize = 12_000;
pub const WORKFLOW_EDGES_MAX: usize = 50_000;
/// The id of a workflow and the name of a node: `<workflow>:<node>` is the id of the node's task.
pub const WORKFLOW_ID_BYTES_MAX: usize = 63;
pub const NODE_NAME_BYTES_MAX: usize = 64;
/// Schedules of a store: all of them are kept in memory, the bytes of one are bounded below.
pub const SCHEDULES_MAX: usize = 10_000;
/// The id of a schedule: with a slot behind it, it is the id of a task.
pub const SCHEDULE_ID_BYTES_MAX: usize = 80;
/// A cron pattern; the longest sensible one names every minute.
pub const SCHEDULE_CRON_BYTES_MAX: usize = 256;
/// The payload of a schedule's tasks, because it is kept in memory. Larger data belongs where the task can fetch it.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// The shortest `@every`.
pub const SCHEDULE_EVERY_MS_MIN: u64 = 1000;
/// Fires that a schedule remembers, and looks at to tell whether one is still live.
pub const SCHEDULE_FIRES_KEPT_MAX: usize = 100;
/// Slots fired by one commit; a longer catch-up takes several.
pub const SCHEDULE_FIRES_STEP_MAX: usize = 100;
/// Under catch-up `skip` a slot still fires when it is at most this late: a restart takes seconds.
pub const SCHEDULE_LATE_MS_MAX: u64 = 60_000;
/// How far back missed slots are caught up with unless the schedule says otherwise.
pub const SCHEDULE_WINDOW_MS_DEFAULT: u64 = 86_400_000;
pub const SCHEDULE_JITTER_MS_MAX: u64 = 86_400_000;
/// Slots of one preview.
pub const SCHEDULE_PREVIEW_MAX: usize = 100;
/// Requests of one TCP connection under way at once: enough to keep the pipe full over any network, few enough that one client
/// cannot fill the store's inbox. Beyond it the connection is not read.
pub const FRAMES_IN_FLIGHT_MAX: usize = 256;
/// Bytes of these requests; one frame is let in whatever its size.
pub const FRAME_BYTES_IN_FLIGHT_MAX: usize = 16 * 1024 * 1024;
/// Those of them that are answered with stored tasks: each answer may be as large as [`ANSWER_BYTES_MAX`].
pub const FRAMES_BULKY_MAX: usize = 8;
/// Answers of one TCP connection that wait for the client to read; beyond it no further answer is written down.
pub const FRAME_ANSWERS_BYTES_MAX: usize = 1024 * 1024;
/// What a connection counts in the memory budget by being open: its buffers and its task.
pub const CONNECTION_BYTES: usize = 8 * 1024;
/// Bodies and answers up to this size are not counted in the memory budget: they come and go with one read or write.
pub const UNCOUNTED_BYTES_MAX: usize = 16 * 1024;
/// How long a request may wait for the memory budget. Clients with a timeout of 10 s still learn that they should come again.
pub const MEMORY_WAIT_MS_MAX: u64 = 3_000;
/// Credits that a connected worker may have open: it has that many tasks ahead of it at most.
pub const WORK_CREDITS_MAX: u32 = 10_000;
/// Batches of outcomes of one connected worker on their way to the disk: enough to keep it busy, and then the worker waits.
pub const WORK_BATCHES_MAX: u32 = 16;
/// Payloads in one message to a connected worker, a single larger task excepted: common clients refuse messages of 4 MiB.
pub const WORK_MESSAGE_BYTES_MAX: usize = 512 * 1024;
/// Tasks in one streamed submit: its answer has a line for each and must fit into the 4 MiB that common clients accept.
pub const STREAMED_TASKS_MAX: usize = 50_000;
/// Batches of one streamed submit on their way to the disk.
pub const STREAMED_BATCHES_MAX: usize = 8;
/// Events kept for those who come back after a cut, by number and by bytes: seconds under the heaviest load, minutes or hours
/// otherwise. It is also how far a reader may fall behind.
pub const EVENTS_KEPT_MAX: usize = 65_536;
pub const EVENTS_KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Events that wait to be told to other processes on the same store: some milliseconds of the heaviest load. Others are lost to them,
/// which they are told.
pub const EVENTS_RELAYED_MAX: usize = 4096;
/// How long events are kept on after the last listener left: long enough to come back after a restart or a broken network.
pub const EVENTS_LINGER_MS: u64 = 300_000;
/// Error text in an event; the task itself has all of it.
pub const EVENT_ERROR_BYTES_MAX: usize = 1024;
/// Events that one listener takes from the ring at once, and events looked at for that under one lock.
pub const EVENTS_READ_MAX: usize = 256;
pub const EVENTS_SCAN_MAX: usize = 2048;
/// Queues in one event about depths, the deepest first.
pub const EVENT_QUEUES_MAX: usize = 100;
/// Listeners at once unless a setting says otherwise: each costs a connection, a task and two small buffers.
pub const LISTENERS_MAX: usize = 2000;
/// Values of one filter of a listener: every event is held against them.
pub const LISTENER_VALUES_MAX: usize = 100;
/// What is written to a listener at once, as text.
pub const LISTENER_WRITE_BYTES_MAX: usize = 64 * 1024;
/// How long a listener may go without reading, if a setting says so: connections that take nothing for 30 s end by themselves.
pub const LISTENER_STALL_MS_MAX: u64 = 20_000;
/// How long a listener that was cut has to read that it was.
pub const LISTENER_FAREWELL_MS_MAX: u64 = 15_000;
/// A listener hears something at least this often, so that a broken connection is noticed on both sides.
pub const LISTENER_BEAT_MS: u64 = 15_000;
/// A WebSocket that has not even answered a ping for this long is gone.
pub const LISTENER_SILENT_MS_MAX: u64 = 60_000;
/// What a WebSocket client may send: it has nothing to say but pings.
pub const LISTENER_MESSAGE_BYTES_MAX: usize = 4096;
/// How many messages it may send between two beats: all listeners share one thread.
pub const LISTENER_MESSAGES_MAX: usize = 200;
