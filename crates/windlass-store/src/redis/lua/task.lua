-- The one place where a task moves between the orders.

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

-- Takes a task out of every order that its line says it is in. `gone` says that it has left the line of ready tasks already.
local function leave(name, row, gone)
  count(row, -1)
  call("ZREM", base .. "state/" .. row.state, name)
  if row.state == PENDING then
    call("ZREM", base .. "age/" .. row.queue, name)
    if not gone then
      leave_line(name, row)
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
    enter_line(name, row)
  end
  if row.wake ~= "-" then
    call("ZADD", base .. "wakes", row.wake, name)
  end
  if row.prune ~= "-" then
    enter_ends(name, row)
  end
end

-- The queues that this call has seen. A queue stays for good, as in the other stores; so there is a bound to them.
local known_queues = {}

local function is_known(queue)
  if not known_queues[queue] then
    known_queues[queue] = call("ZSCORE", base .. "queues", queue) and true
  end
  return known_queues[queue]
end

local function know_queue(queue)
  if not is_known(queue) then
    call("ZADD", base .. "queues", 0, queue)
    known_queues[queue] = true
  end
end

-- Whether there is room for these queues, `most` of them in all.
local function has_room(queues, most)
  local new = 0
  for queue in pairs(queues) do
    new = new + (is_known(queue) and 0 or 1)
  end
  return new == 0 or call("ZCARD", base .. "queues") + new <= most
end

-- Workflows of which a task was forgotten.
local thinned = {}

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

-- Every script that moves tasks ends with this: the counters are written, and what they show is done.
local function settle()
  settle_counts()
  for group in pairs(thinned) do
    forget_workflow(group)
  end
end

-- A new task, from the arguments that begin at `at`: id, state, priority, class, created, wake, expires, workflow, queue,
-- kind, record, body, unique key, moment from which it waits, key. Returns its number.
local ADD_ARGS = 15
local function add(at)
  local number = next_number()
  local name = name_of(number)
  local row = {
    revision = "1", order = text(number), state = ARGV[at + 1], priority = ARGV[at + 2], class = ARGV[at + 3],
    created = ARGV[at + 4], wake = ARGV[at + 5], prune = "-", expires = ARGV[at + 6], awaited = "0",
    group = ARGV[at + 7], nonce = nonce, queue = ARGV[at + 8], kind = ARGV[at + 9], ready = ARGV[at + 13],
    key = ARGV[at + 14],
  }
  call("HSET", base .. "t/" .. name, "i", line_of(row), "r", ARGV[at + 10], "b", ARGV[at + 11])
  call("HSET", base .. "ids", ARGV[at], name)
  know_queue(row.queue)
  enter(name, row)
  if ARGV[at + 12] ~= "" then
    call("HSET", base .. "unique", ARGV[at + 12], name)
  end
  move("ledger", "submitted", 1)
  return number
end

-- A decided change of the task that has the revision it was decided on, from the arguments that begin at `at`: name, id,
-- revision, act, whether it takes a place ("1") or only uses up the number of one ("2"), state, priority, class, wake, prune, expires, queue, record, ledger, unique key, what
-- becomes of the key, who must have it, moment from which it waits. Acts: "move" writes the record and moves the task, "keep" only writes it,
-- "drop" forgets the task. The key is kept (""), freed if it is the task's own ("free") or taken ("take").
-- Returns "done" with the order and whether others wait for the task, "conflict" or "missing".
local CHANGE_ARGS = 18
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
  if ARGV[at + 4] ~= "0" then
    local number = text(next_number())
    row.order = ARGV[at + 4] == "1" and number or row.order
  end
  for field in string.gmatch(ARGV[at + 13], "%S+") do
    move("ledger", field, 1)
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
      thinned[row.group] = true
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
  row.ready = ARGV[at + 17]
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
