-- Writes decided changes, each under its own condition.
--
-- ARGV[4]  how many fates, and the arguments of `read_fate` for each; then how many changes. Each begins with the number of its fate and
--          has the arguments of `finish`, or with "0" and has those of `change`.
-- Returns for each what that one returns.

-- The usual end of an attempt: a running task without a workflow, a key and anybody who waits for it, which keeps all of its line but
-- state and times. From the arguments that begin at `at`: name, id, revision, record. `fate` is what it shares with others of the
-- call (`read_fate`). Returns "ended", "conflict", "missing", or "other" if it is no such task: then it is for `change`.
local END_ARGS = 4
local PLAIN_RUNNING = "^(%d+) (%d+ )3( %d+ %d+ %d+ )%- %- (%S+ 0 %- )%S+ (%S+) (%S+)( %S+ /)$"
local function finish(at, fate)
  local name, key = ARGV[at], base .. "t/" .. ARGV[at]
  local line = name_by(ARGV[at + 1]) == name and call("HGET", key, "i")
  if not line then
    return "missing"
  end
  local revision, order, middle, flags, queue, kind, rest = string.match(line, PLAIN_RUNNING)
  if revision ~= ARGV[at + 2] then
    local row = parse(line)
    if row.revision == ARGV[at + 2] then
      return "other"
    end
    return again and row.nonce == nonce and "ended" or "conflict"
  end
  line = text(tonumber(revision) + 1) .. " " .. order .. fate.state .. middle .. fate.times .. flags .. nonce .. " " .. queue
    .. " " .. kind .. rest
  call("HSET", key, "i", line, "r", ARGV[at + 3])
  call("HDEL", key, "c", "l", "p", "x")
  local lane = queue .. "/" .. kind
  fate.lanes[lane] = (fate.lanes[lane] or 0) + 1
  local many = #fate.names + 1
  fate.names[many] = name
  return "ended"
end

-- What tasks share that end in the same way, from the arguments that begin at `at`: state, prune, counter of the ledger.
local FATE_ARGS = 3
local function read_fate(at)
  return {
    state = ARGV[at], prune = ARGV[at + 1], times = "- " .. ARGV[at + 1] .. " ", ledger = ARGV[at + 2], names = {}, lanes = {},
  }
end

-- Orders and counters of those that `finish` ended.
local function settle_fate(fate)
  local states, prunes = {}, {}
  for i, name in ipairs(fate.names) do
    states[2 * i - 1], states[2 * i] = name, name
    prunes[2 * i - 1], prunes[2 * i] = fate.prune, name
  end
  call_for_all("ZREM", base .. "state/" .. RUNNING, fate.names, 1)
  call_for_all("ZREM", base .. "leases", fate.names, 1)
  call_for_all("ZADD", base .. "state/" .. fate.state, states, 2)
  call_for_all("ZADD", base .. "prunes", prunes, 2)
  for lane, many in pairs(fate.lanes) do
    local queue, kind = string.match(lane, "^(.*)/(.*)$")
    move("queue/" .. queue, RUNNING, -many)
    move("queue/" .. queue, fate.state, many)
    move("running", "1/" .. kind, -many)
    move("ledger", fate.ledger, many)
  end
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
local ids = {}
at = first
for i = 1, many do
  ids[i] = ARGV[at + 2]
  at = at + 1 + (ARGV[at] == "0" and CHANGE_ARGS or END_ARGS)
end
look_up(ids)

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
