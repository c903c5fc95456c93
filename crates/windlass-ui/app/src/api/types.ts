/** The bodies of the REST interface, as far as the dashboard looks at them. */

export const STATES = [
  "scheduled",
  "blocked",
  "pending",
  "running",
  "retrying",
  "completed",
  "dead_letter",
  "cancelled",
] as const;

export type StateName = (typeof STATES)[number];
export type StateCounts = Record<StateName, number>;

export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

export interface Progress {
  fraction?: number;
  note?: string | null;
}

export interface Task {
  id: string;
  type: string;
  queue: string;
  key?: string;
  state: StateName;
  priority: number;
  payload?: unknown;
  payload_base64?: string;
  attempts: number;
  max_retries: number;
  crashes: number;
  max_crashes: number;
  timeout_seconds: number;
  retention_seconds: number;
  retry: Record<string, unknown>;
  metadata?: Record<string, string>;
  unique_key?: string;
  unique_until?: string;
  cancel_reason?: string;
  dependencies?: string[];
  dependency_count?: number;
  dependencies_open?: number;
  workflow_id?: string;
  created_at: string;
  updated_at: string;
  scheduled_at?: string;
  expires_at?: string;
  started_at?: string;
  completed_at?: string;
  next_retry_at?: string;
  worker_id?: string;
  lease_expires_at?: string;
  progress?: Progress;
  error?: string;
  result?: unknown;
  result_base64?: string;
  checkpoint_at?: string;
}

export interface Attempt {
  attempt: number;
  worker_id: string;
  started_at: string;
  ended_at?: string;
  duration_ms?: number;
  outcome: "running" | "completed" | "failed" | "crashed" | "released" | "cancelled";
  error?: string;
}

export interface Reason {
  code: string;
  text: string;
  until?: string;
}

export interface Explanation {
  id: string;
  state: StateName;
  runnable: boolean;
  reasons: Reason[];
}

export interface Rates {
  submitted_per_second: number;
  completed_per_second: number;
  failed_per_second: number;
}

export interface ClassCounts {
  critical: number;
  high: number;
  normal: number;
  low: number;
}

export interface Queue {
  name: string;
  paused: boolean;
  tasks: StateCounts;
  pending_by_priority: ClassCounts;
  oldest_pending_age_seconds?: number | null;
  rates: Rates;
}

export interface Stats {
  tasks: StateCounts;
  pending_by_priority: ClassCounts;
  rates: Rates;
  mean_duration_ms?: number | null;
  queues: number;
  oldest_pending_age_seconds?: number | null;
  active_workers: number;
  uptime_seconds: number;
}

export interface Health {
  status: string;
  version: string;
  store: string;
  durability: string;
}

export type LimitScope = "queue" | "type" | "key";

export interface Limit {
  scope: LimitScope;
  name: string;
  max_concurrency?: number | null;
  rate?: { count: number; per_seconds: number } | null;
  weight?: number | null;
  max_depth?: number | null;
  paused: boolean;
  /** Of a queue: a task gains one step of priority every so often. */
  ageing?: { every_seconds: number } | null;
  waiting: number;
  running: number;
  blocked?: Reason | null;
}

export type Action = "retry" | "cancel" | "delete" | "set_priority" | "move";

export interface Order {
  action: Action;
  filter: string;
  priority?: number | string;
  queue?: string;
  by?: string;
}

export interface Sample {
  id: string;
  type: string;
  queue: string;
  state: StateName;
  error?: string | null;
}

export interface Preview {
  dry_run: true;
  matched: number;
  matched_at_least: boolean;
  would_change: number;
  would_change_at_least: boolean;
  sample: Sample[];
}

export interface Operation {
  id: string;
  state: "running" | "done" | "cancelled" | "failed";
  action: Action;
  filter: string;
  priority?: number | null;
  queue?: string | null;
  by?: string | null;
  created_at: string;
  ended_at?: string | null;
  reason?: string | null;
  expected: number;
  expected_at_least: boolean;
  seen: number;
  changed: number;
  skipped: number;
  failed: number;
  progress: number;
  rate_per_second: number;
}

export interface DeadGroup {
  fingerprint: string;
  count: number;
  sample_error?: string | null;
  type: string;
  queue: string;
  first_at: string;
  last_at: string;
  sample_task_id: string;
}

export interface DeadGroups {
  items: DeadGroup[];
  scanned: number;
  complete: boolean;
}

export interface Schedule {
  id: string;
  cron: string;
  timezone: string;
  task: { type: string; queue: string; priority: number };
  overlap: string;
  catch_up: string;
  jitter_seconds: number;
  paused: boolean;
  created_at: string;
  next_at?: string | null;
  last_at?: string | null;
  last_task_id?: string | null;
  fired: number;
  skipped: number;
  standing: Reason;
}

export interface Fire {
  scheduled_at: string;
  fired_at: string;
  manual: boolean;
  task_id: string;
  state?: StateName;
  started_at?: string;
  completed_at?: string;
  error?: string;
}

export interface Slot {
  scheduled_at: string;
  starts_at: string;
}

export interface WorkflowNode {
  name: string;
  id: string;
  type: string;
  queue: string;
  state: StateName;
  /** Absent when it comes after none. */
  after?: string[];
  started_at?: string | null;
  completed_at?: string | null;
  error?: string | null;
}

export interface Workflow {
  id: string;
  state: "running" | "failed" | "cancelled" | "completed";
  created_at: string;
  size: number;
  tasks_by_state: StateCounts;
  nodes?: WorkflowNode[] | null;
  next_cursor?: string | null;
  affected?: number | null;
}

export interface Dependency {
  id: string;
  name?: string | null;
  state?: StateName | null;
}

export interface Worker {
  id: string;
  paused: boolean;
  active: boolean;
  processes: number;
  host?: string | null;
  pid?: number | null;
  version?: string | null;
  queues: string[];
  types?: string[] | null;
  slots?: number | null;
  cpu?: number | null;
  memory_bytes?: number | null;
  tasks: string[];
  first_seen_at: string;
  last_heartbeat_at: string;
}

export interface MetricsRange {
  step_seconds: number;
  from: string | number;
  to: string | number;
  series: Record<string, (number | null)[]>;
}
