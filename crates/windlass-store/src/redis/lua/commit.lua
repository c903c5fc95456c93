-- Writes decided changes, each under its own condition.
--
-- ARGV[4]  how many fates, and the arguments of `read_fate` for each; then how many changes. Each begins with the number of its fate and
--          has the arguments of `finish`, or with "0" and has those of `change`.
-- Returns for each what that one returns.

-- What tasks share that end in the same way, from the arguments that begin at `at`: state, prune, counter of the ledger, queue, kind.
local FATE_ARGS = 5
local function read_fate(at)
  return {
    state = ARGV[at], prune = ARGV[at + 1], ledger = ARGV[at + 2], queue = ARGV[at + 3], kind = ARGV[at + 4],
    names = {}, tasks = {},
  }
end

-- What is held of the tasks that are to end, and whether others may wait for any.
local held, some_awaited = {}, false

-- The usual end of an attempt: a running task without a workflow and a key. From the arguments that begin at `at`: name; revision,
-- number and secret of the lease as they stand in `held`; line and record. `fate` is what it shares with others of the call. Returns
-- "ended", "conflict", "missing", or "other" if somebody waits for it: then it is for `change`.
local END_ARGS = 3
local function finish(at, fate)
  local name = ARGV[at]
  if not held[name] or string.find(held[name], ARGV[at + 1], 1, true) ~= 1 then
    local row = find(name)
    if not row then
      return "missing"
    end
    return again and row.nonce == nonce and "ended" or "conflict"
  end
  if some_awaited and call("SISMEMBER", base .. "awaited", name) == 1 then
    return "other"
  end
  local many = #fate.names + 1
  fate.names[many], fate.tasks[2 * many - 1], fate.tasks[2 * many] = name, name, ARGV[at + 2]
  return "ended"
end

-- Writes those that `finish` ended, their orders and their counters.
local function settle_fate(fate)
  local names, many = fate.names, #fate.names
  if many == 0 then
    return
  end
  local prunes, prune = {}, fate.prune
  for i = 1, many do
    prunes[2 * i - 1], prunes[2 * i] = prune, names[i]
  end
  call_for_all("HSET", base .. "tasks", fate.tasks, 2)
  call_for_all("HDEL", base .. "held", names, 1)
  if call("EXISTS", base .. "progress") == 1 then
    call_for_all("HDEL", base .. "progress", names, 1)
  end
  local runs = numbers.runs_of(names)
  numbers.take("state/" .. RUNNING, names, runs)
  numbers.put("state/" .. fate.state, names, runs)
  call_for_all("ZREM", base .. "leases", names, 1)
  call_for_all("ZADD", base .. "prunes", prunes, 2)
  move("queue/" .. fate.queue, RUNNING, -many)
  move("queue/" .. fate.queue, fate.state, many)
  move("running", "1/" .. fate.kind, -many)
  move("ledger", fate.ledger, many)
end

local before = remembered()
if before then
  return before
end
go_on_when_full()
local fates, at = {}, 5
for i = 1, tonumber(ARGV[4]) do
  fates[i] = read_fate(at)
  at = at + FATE_ARGS
end
local many, first = tonumber(ARGV[at]), at + 1
local ids, names = {}, {}
at = first
for _ = 1, many do
  if ARGV[at] == "0" then
    ids[#ids + 1] = ARGV[at + 2]
    at = at + 1 + CHANGE_ARGS
  else
    names[#names + 1] = ARGV[at + 1]
    at = at + 1 + END_ARGS
  end
end
look_up("ids", ids, known_ids)
look_up("held", names, held)
some_awaited = #names > 0 and call("EXISTS", base .. "awaited") == 1

local answers, changed = {}, false
at = first
for i = 1, many do
  if ARGV[at] == "0" then
    answers[i] = change(at + 1)
    changed = changed or answers[i][1] == "done"
    at = at + 1 + CHANGE_ARGS
  else
    answers[i] = finish(at + 1, fates[tonumber(ARGV[at])])
    changed = changed or answers[i] == "ended"
    at = at + 1 + END_ARGS
  end
end
for _, fate in ipairs(fates) do
  settle_fate(fate)
end
settle()
if changed then
  remember(answers)
  tell()
end
return answers
