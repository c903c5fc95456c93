-- Adds tasks, each by itself: what one of them meets is no matter of the others.
--
-- ARGV[4]  as many as may wait in a queue, or "" for no bound.
-- ARGV[5]  how many tasks; the arguments of `add` follow for each.
-- Returns for each its number; or, if its id is taken, the row of the task that has it, with its body: whether the
-- submit repeats that one is for Rust to say; or "full".
--
-- Batches in which tasks look at each other or at others (unique keys, dependencies, all or nothing) come through
-- transact.lua. This is the way of nearly all submits, in one call and without reading anything first.

local bound = tonumber(ARGV[4])
local answers = {}
local added = false
for i = 1, tonumber(ARGV[5]) do
  local at = 6 + (i - 1) * ADD_ARGS
  local taken = call("HGET", base .. "ids", ARGV[at])
  if taken then
    answers[i] = show(taken, true)
  else
    local full = false
    if bound then
      local waiting = call("HMGET", base .. "queue/" .. ARGV[at + 8], "0", "1", "2", "4")
      local sum = 0
      for j = 1, 4 do
        sum = sum + (tonumber(waiting[j] or 0) or 0)
      end
      full = sum >= bound
    end
    if full then
      answers[i] = "full"
    else
      answers[i] = add(at)
      added = true
    end
  end
end
if added then
  tell()
end
return answers
