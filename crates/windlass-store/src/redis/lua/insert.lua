-- Adds tasks, each by itself: what one of them meets is no matter of the others.
--
-- ARGV[4]  as many as may wait in a queue, or "" for no bound.
-- ARGV[5]  how many queues there may be.
-- ARGV[6]  how many tasks; the arguments of `add` follow for each.
-- Returns "crowded" if there are too many queues; else for each its number; or, if its id is taken, the row of the task that has it, with its body: whether the
-- submit repeats that one is for Rust to say; or "full"; or "late", if it would be new but comes too late; or "full", the limit that as many wait under as may, and how many.
--
-- A call that is repeated finds its tasks by their ids, unless they are kept so shortly that they may have ended and be forgotten by
-- then: those are remembered by the number of the call.
--
-- Batches in which tasks look at each other or at others (unique keys, dependencies, all or nothing) come through
-- transact.lua. This is the way of nearly all submits, in one call and without reading anything first.

local bound = tonumber(ARGV[4])
local bounded = tonumber(call("HGET", KEYS[1], "depths") or 0) > 0

-- The limit that lets no more wait, if there is one.
local function full(queue, kind, key)
  for _, limit in ipairs({ "0/" .. queue, "1/" .. kind, key ~= NO_KEY and "2/" .. key or nil }) do
    local gate = gate_of(limit)
    if gate and gate.depth and waiting_under(limit) >= gate.depth then
      return { "full", limit, text(gate.depth) }
    end
  end
end

local before, late = remembered() or {}, is_late()
local queues = {}
for i = 1, tonumber(ARGV[6]) do
  queues[ARGV[15 + (i - 1) * ADD_ARGS]] = true
end
if not has_room(queues, tonumber(ARGV[5])) then
  return "crowded"
end

local answers, numbers = {}, {}
local added = false
for i = 1, tonumber(ARGV[6]) do
  local at = 7 + (i - 1) * ADD_ARGS
  local taken = call("HGET", base .. "ids", ARGV[at])
  if before[i] then
    answers[i] = before[i]
  elseif taken then
    answers[i] = show(taken, true)
  elseif late then
    answers[i] = "late"
  elseif bound and waiting_in(ARGV[at + 8]) >= bound then
    answers[i] = "full"
  else
    answers[i] = bounded and full(ARGV[at + 8], ARGV[at + 9], ARGV[at + 14])
    if not answers[i] then
      answers[i] = add(at)
      added = true
    end
  end
  numbers[i] = type(answers[i]) == "number" and answers[i]
end
settle()
if added then
  remember(numbers)
end
if added then
  tell()
end
return answers
