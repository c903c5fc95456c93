/** Requests to the broker that served this page. Paths are relative, so that a prefix in front of it does not matter. */

export interface FieldError {
  field: string;
  message: string;
}

/** A refusal of the broker, or of the network before it. */
export class Refusal extends Error {
  constructor(
    /** 0 when there was no answer. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: FieldError[] = [],
  ) {
    super(message);
  }
}

const TIMEOUT_MS = 30_000;

export async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<string> {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  const init: RequestInit = { method, signal: signal ? AbortSignal.any([signal, limit]) : limit };
  if (body !== undefined) {
    init.body = typeof body === "string" ? body : JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  let response: Response;
  let text: string;
  try {
    response = await fetch(`.${path}`, init);
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, "unreachable", "The broker does not answer.");
  }
  if (response.ok) return text;
  throw refusal(response.status, text);
}

function refusal(status: number, text: string): Refusal {
  try {
    const problem = JSON.parse(text) as { code?: string; title?: string; detail?: string; errors?: FieldError[] };
    const fields = problem.errors ?? [];
    const named = fields.map((it) => `${it.field}: ${it.message}`).join("; ");
    const message = problem.detail ?? (named || problem.title) ?? `The broker answered ${status}.`;
    return new Refusal(status, problem.code ?? "unknown", message, fields);
  } catch {
    return new Refusal(status, "unknown", `The broker answered ${status}.`);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return JSON.parse(await request("GET", path, undefined, signal)) as T;
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  return JSON.parse(await request("POST", path, body)) as T;
}

export async function put<T>(path: string, body: unknown): Promise<T> {
  return JSON.parse(await request("PUT", path, body)) as T;
}

export async function remove(path: string): Promise<void> {
  await request("DELETE", path);
}

/** A path with a query; absent and empty values are left out. */
export function url(path: string, query: Record<string, string | number | null | undefined>): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") words.set(name, String(value));
  }
  const text = words.toString();
  return text ? `${path}?${text}` : path;
}

/** A name as one segment of a path. */
export const seg = encodeURIComponent;
