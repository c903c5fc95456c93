-- The part that all scripts begin with: what a task is in Redis, and the one place where it moves between the orders.
--
-- KEYS[1]  the key `meta`; every other key of the store has the same beginning, which is a hash tag.
-- ARGV[1]  "1" if this very call was sent before and its answer was lost, else "0".
-- ARGV[2]  what to tell other processes if anything changes (see hints.rs), or "".
-- ARGV[3]  a number that only this call has: it tells a repeated commit from a conflict.
--
-- A row is the hash t/<name>, where <name> is the task's number in 14 digits, so that equal times sort by number:
--   i  the line below: all that scripts need to know of a task
--   r  the record as it was last written by Rust; b  the body, which never changes
--   c  the claim that came after it: number, secret, length, moment, worker
--   l  the lease: number, secret, length, length since it was extended, end, beat, worker; x  "1" once the lease was noticed as lost
--   p  the progress that the worker reported
--
-- Numbers travel as text wherever nothing is computed with them: Lua has no integers and would round their printing.

local base = string.sub(KEYS[1], 1, -5)
local again, hint, nonce = ARGV[1] == "1", ARGV[2], ARGV[3]
local call = redis.call

-- What finishes work goes on when Redis is full, because only that makes room again. Redis stops a script at its first command
-- that may take memory, unless the script has written before; a delete is a write that takes none.
local function go_on_when_full()
  call("DEL", base .. "none")
end
local PENDING, RUNNING, COMPLETED, CANCELLED = "2", "3", "5", "7"
-- Orders are below this, so that priority and order fit into the 53 bits of a score.
local ORDERS = 35184372088832

local function name_of(number)
  return string.format("%014.0f", number)
end

local function text(number)
  return string.format("%.0f", number)
end

local function parse(line)
  local row = {}
  row.revision, row.order, row.state, row.priority, row.class, row.created, row.wake, row.prune, row.expires,
    row.awaited, row.group, row.nonce, row.queue, row.kind = string.match(line,
    "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$")
  return row
end

local function line_of(row)
  return table.concat({ row.revision, row.order, row.state, row.priority, row.class, row.created, row.wake,
    row.prune, row.expires, row.awaited, row.group, row.nonce, row.queue, row.kind }, " ")
end

local function find(name)
  local line = call("HGET", base .. "t/" .. name, "i")
  return line and parse(line)
end

-- Everything of a task that Rust reads; the body is large, so it comes only when asked for.
local function show(name, with_body)
  local row
  if with_body then
    row = call("HMGET", base .. "t/" .. name, "i", "r", "c", "l", "p", "b")
  else
    row = call("HMGET", base .. "t/" .. name, "i", "r", "c", "l", "p")
  end
  if not row[1] then
    return false
  end
  row[#row + 1] = name
  return row
end

local function ready_key(row)
  return base .. "ready/" .. row.queue .. "/" .. row.kind
end

-- An ended task that others wait for stands in the line of those who have yet to tell it.
local function end_key(row)
  if row.awaited == "1" and (row.state == COMPLETED or row.state == CANCELLED) then
    return base .. "ended"
  end
  return base .. "prunes"
end

-- Whoever leads must hear that there is an end to tell, whoever made it.
local function enter_ends(name, row)
  local order = end_key(row)
  if order == base .. "prunes" then
    call("ZADD", order, row.prune, name)
  else
    call("ZADD", order, tonumber(name), name)
    call("PUBLISH", base .. "hints", "- - - +d")
  end
end

local function count(row, by)
  local counts = base .. "queue/" .. row.queue
  call("HINCRBY", counts, row.state, by)
  if row.state == PENDING then
    call("HINCRBY", counts, "class" .. row.class, by)
  end
  if row.group ~= "-" then
    call("HINCRBY", base .. "workflow/" .. row.group, row.state, by)
  end
end

-- Takes a task out of every order that its line says it is in.
local function leave(name, row)
  count(row, -1)
  call("ZREM", base .. "state/" .. row.state, name)
  if row.state == PENDING then
    local ready = ready_key(row)
    call("ZREM", base .. "age/" .. row.queue, name)
    call("ZREM", ready, name)
    if call("EXISTS", ready) == 0 then
      call("SREM", base .. "lanes/" .. row.queue, row.kind)
    end
  elseif row.state == RUNNING then
    call("ZREM", base .. "leases", name)
  end
  if row.wake ~= "-" then
    call("ZREM", base .. "wakes", name)
  end
  if row.prune ~= "-" then
    call("ZREM", end_key(row), name)
  end
end

-- Puts a task into every order that its line says it is in. A lease enters its own with a beat, where it is given.
local function enter(name, row)
  count(row, 1)
  call("ZADD", base .. "state/" .. row.state, tonumber(name), name)
  if row.state == PENDING then
    call("ZADD", base .. "age/" .. row.queue, row.created, name)
    call("ZADD", ready_key(row), (255 - tonumber(row.priority)) * ORDERS + tonumber(row.order), name)
    call("SADD", base .. "lanes/" .. row.queue, row.kind)
  end
  if row.wake ~= "-" then
    call("ZADD", base .. "wakes", row.wake, name)
  end
  if row.prune ~= "-" then
    enter_ends(name, row)
  end
end

local function know_queue(queue)
  call("ZADD", base .. "queues", 0, queue)
end

-- A workflow is kept as long as one of its tasks is.
local function forget_workflow(group)
  local key = base .. "workflow/" .. group
  local counts = call("HMGET", key, "0", "1", "2", "3", "4", "5", "6", "7")
  for i = 1, 8 do
    if counts[i] and tonumber(counts[i]) > 0 then
      return
    end
  end
  call("DEL", key)
  call("HDEL", base .. "workflows", group)
  call("ZREM", base .. "workflow_order", group)
end

-- A new task, from the arguments that begin at `at`: id, state, priority, class, created, wake, expires, workflow, queue,
-- kind, record, body, unique key. Returns its number.
local ADD_ARGS = 13
local function add(at)
  local number = call("HINCRBY", KEYS[1], "number", 1)
  local name = name_of(number)
  local row = {
    revision = "1", order = text(number), state = ARGV[at + 1], priority = ARGV[at + 2], class = ARGV[at + 3],
    created = ARGV[at + 4], wake = ARGV[at + 5], prune = "-", expires = ARGV[at + 6], awaited = "0",
    group = ARGV[at + 7], nonce = nonce, queue = ARGV[at + 8], kind = ARGV[at + 9],
  }
  call("HSET", base .. "t/" .. name, "i", line_of(row), "r", ARGV[at + 10], "b", ARGV[at + 11])
  call("HSET", base .. "ids", ARGV[at], name)
  know_queue(row.queue)
  enter(name, row)
  if ARGV[at + 12] ~= "" then
    call("HSET", base .. "unique", ARGV[at + 12], name)
  end
  call("HINCRBY", base .. "ledger", "submitted", 1)
  return number
end

-- A decided change of the task that has the revision it was decided on, from the arguments that begin at `at`: name, id,
-- revision, act, takes a place, state, priority, class, wake, prune, expires, queue, record, ledger, unique key, what
-- becomes of the key, who must have it. Acts: "move" writes the record and moves the task, "keep" only writes it,
-- "drop" forgets the task. The key is kept (""), freed if it is the task's own ("free") or taken ("take").
-- Returns "done" with the order and whether others wait for the task, "conflict" or "missing".
local CHANGE_ARGS = 17
local function change(at)
  local name, act = ARGV[at], ARGV[at + 3]
  local key = base .. "t/" .. name
  local row = find(name)
  if not row or call("HGET", base .. "ids", ARGV[at + 1]) ~= name then
    return { "missing" }
  end
  if row.revision ~= ARGV[at + 2] then
    if again and row.nonce == nonce then
      return { "done", row.order, row.awaited }
    end
    return { "conflict" }
  end
  local unique, fate = ARGV[at + 14], ARGV[at + 15]
  if fate == "take" and (call("HGET", base .. "unique", unique) or "") ~= ARGV[at + 16] then
    return { "conflict" }
  end
  if act == "drop" and row.awaited == "1" then
    return { "conflict" }
  end
  row.nonce = nonce
  if act ~= "keep" then
    leave(name, row)
  end
  row.revision = text(tonumber(row.revision) + 1)
  if ARGV[at + 4] == "1" then
    row.order = text(call("HINCRBY", KEYS[1], "number", 1))
  end
  for field in string.gmatch(ARGV[at + 13], "%S+") do
    call("HINCRBY", base .. "ledger", field, 1)
  end
  if fate == "free" and call("HGET", base .. "unique", unique) == name then
    call("HDEL", base .. "unique", unique)
  elseif fate == "take" then
    call("HSET", base .. "unique", unique, name)
  end
  if act == "drop" then
    call("DEL", key)
    call("HDEL", base .. "ids", ARGV[at + 1])
    if row.group ~= "-" then
      forget_workflow(row.group)
    end
    return { "done", row.order, row.awaited }
  end
  if act == "keep" then
    call("HSET", key, "i", line_of(row), "r", ARGV[at + 12])
    call("HDEL", key, "c")
    return { "done", row.order, row.awaited }
  end
  row.state, row.priority, row.class = ARGV[at + 5], ARGV[at + 6], ARGV[at + 7]
  row.wake, row.prune, row.expires, row.queue = ARGV[at + 8], ARGV[at + 9], ARGV[at + 10], ARGV[at + 11]
  call("HSET", key, "i", line_of(row), "r", ARGV[at + 12])
  call("HDEL", key, "c", "l", "p", "x")
  know_queue(row.queue)
  enter(name, row)
  return { "done", row.order, row.awaited }
end

local function tell()
  if hint ~= "" then
    call("PUBLISH", base .. "hints", hint)
  end
end
