-- The counters of queues, in order of name.
--
-- ARGV[4]  only this queue, or "". ARGV[5]  only those behind this one, or "". ARGV[6]  how many at most.
-- Returns for each: name, "1" if paused, the counts by state, the pending ones by class, and when the oldest of these was
-- added, or "".

local names
if ARGV[4] ~= "" then
  names = call("ZSCORE", base .. "queues", ARGV[4]) and { ARGV[4] } or {}
else
  local from = ARGV[5] ~= "" and "(" .. ARGV[5] or "-"
  names = call("ZRANGEBYLEX", base .. "queues", from, "+", "LIMIT", 0, ARGV[6])
end
local answers = {}
for i, name in ipairs(names) do
  local counts = call("HMGET", base .. "queue/" .. name, "paused", "0", "1", "2", "3", "4", "5", "6", "7",
    "class0", "class1", "class2", "class3")
  local answer = { name, counts[1] or "0" }
  for j = 2, 13 do
    answer[#answer + 1] = counts[j] or "0"
  end
  local oldest = call("ZRANGE", base .. "age/" .. name, 0, 0)[1]
  local first = oldest and find(name_of((numbers.ends_of(oldest))))
  answer[#answer + 1] = first and first.created or ""
  answers[i] = answer
end
return answers
