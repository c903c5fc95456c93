-- Writes decided changes, each under its own condition.
--
-- ARGV[4]  how many fates, and the arguments of `read_fate` for each; then how many parts. A part begins with the number of its fate and
--          has the arguments of `finish`, or with "0" and has those of `change`.
-- Returns for each what that one returns.

-- What tasks share that end in the same way, from the arguments that begin at `at`: state, prune, counter of the ledger, queue, kind.
local FATE_ARGS = 5
local function read_fate(at)
  return {
    state = ARGV[at], prune = ARGV[at + 1], ledger = ARGV[at + 2], queue = ARGV[at + 3], kind = ARGV[at + 4],
    many = 0, runs = {}, tasks = {},
  }
end

-- Whether others may wait for any of the tasks that are to end; and what leaves `held` and `leases`.
local some_awaited, gone = false, { members = {}, names = {} }

-- Some tasks run no more, of a member that has them. One that leaves whole is in nobody's way until the call ends.
local function end_hold(hold, from, till)
  if hold.first == from and hold.last == till then
    gone.members[#gone.members + 1] = hold.member
    gone.names[#gone.names + 1] = hold.name
  else
    holds.take(hold, from, till)
  end
end

-- The end of the tasks of a part from one of its places to another, counted from 0. What is written of each is at `at`.
local function end_run(fate, at, from, till)
  fate.many = fate.many + till - from + 1
  fate.runs[#fate.runs + 1] = ARGV[at + 2 * from]
  fate.runs[#fate.runs + 1] = ARGV[at + 2 * till]
  fate.tasks[#fate.tasks + 1] = at + 2 * from
  fate.tasks[#fate.tasks + 1] = at + 2 * till + 1
end

-- The usual ends of attempts: running tasks without a workflow and a key, whose numbers and tokens follow each other. From the
-- arguments that begin at `at`: revision; number of the first lease; secret; how many; and for each name, and line and record.
-- `fate` is what they share with others of the call. Returns "ended" if all of them did; else for each "ended", "conflict", "missing",
-- or "other" if somebody waits for it: then it is for `change`.
local END_ARGS = 4
local function finish(at, fate)
  local revision, number, secret, many = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + END_ARGS
  local first = tonumber(ARGV[at])

  -- The member that the task at a place is in, if it is the one that the lease is of.
  local function held(place)
    local hold = holds.find(ARGV[at + 2 * place])
    if hold then
      local has, begins, knows = string.match(hold.terms, "^(%S+) (%S+) (%S+) ")
      local its = tonumber(begins) + first + place - hold.first
      return has == revision and knows == secret and its == number + place and hold or nil
    end
  end

  -- Whether others wait for any of them.
  local function is_awaited()
    local names = {}
    for place = 0, some_awaited and many - 1 or -1 do
      names[place + 1] = ARGV[at + 2 * place]
    end
    for _, awaited in ipairs(names[1] and call("SMISMEMBER", base .. "awaited", unpack(names)) or {}) do
      if awaited == 1 then
        return true
      end
    end
    return false
  end

  local hold = held(0)
  if hold and hold.last >= first + many - 1 and not is_awaited() then
    end_hold(hold, first, first + many - 1)
    end_run(fate, at, 0, many - 1)
    return "ended"
  end
  local answers = {}
  for place = 0, many - 1 do
    local name = ARGV[at + 2 * place]
    local one = held(place)
    if not one then
      local row = find(name)
      answers[place + 1] = not row and "missing" or again and row.nonce == nonce and "ended" or "conflict"
    elseif some_awaited and call("SISMEMBER", base .. "awaited", name) == 1 then
      answers[place + 1] = "other"
    else
      end_hold(one, first + place, first + place)
      end_run(fate, at, place, place)
      answers[place + 1] = "ended"
    end
  end
  return answers
end

-- Writes those that `finish` ended, their orders and their counters.
local function settle_fate(fate)
  local tasks, many = fate.tasks, fate.many
  if many == 0 then
    return
  end
  for i = 1, #tasks, 2 do
    for from = tasks[i], tasks[i + 1], WORDS_MAX do
      call("HSET", base .. "tasks", unpack(ARGV, from, math.min(from + WORDS_MAX - 1, tasks[i + 1])))
    end
  end
  if call("EXISTS", base .. "progress") == 1 then
    for i = 1, #tasks, 2 do
      for at = tasks[i], tasks[i + 1], 2 do
        call("HDEL", base .. "progress", ARGV[at])
      end
    end
  end
  numbers.take("state/" .. RUNNING, fate.runs)
  numbers.put("state/" .. fate.state, fate.runs)
  numbers.put_prunes(fate.prune, fate.runs)
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
local ids, ends = {}, false
at = first
for _ = 1, many do
  if ARGV[at] == "0" then
    ids[#ids + 1] = ARGV[at + 2]
    at = at + 1 + CHANGE_ARGS
  else
    ends = true
    at = at + 1 + END_ARGS + 2 * tonumber(ARGV[at + END_ARGS])
  end
end
look_up("ids", ids, known_ids)
some_awaited = ends and call("EXISTS", base .. "awaited") == 1

local answers, changed = {}, false
at = first
for i = 1, many do
  if ARGV[at] == "0" then
    answers[i] = change(at + 1)
    changed = changed or answers[i][1] == "done"
    at = at + 1 + CHANGE_ARGS
  else
    local fate = fates[tonumber(ARGV[at])]
    local before = fate.many
    answers[i] = finish(at + 1, fate)
    changed = changed or fate.many > before
    at = at + 1 + END_ARGS + 2 * tonumber(ARGV[at + END_ARGS])
  end
end
call_for_all("ZREM", base .. "held", gone.members, 1)
call_for_all("ZREM", base .. "leases", gone.names, 1)
for _, fate in ipairs(fates) do
  settle_fate(fate)
end
settle()
if changed then
  remember(answers)
  tell()
end
return answers
