-- A page of things that have a name: schedules, operations.
--
-- ARGV[4]  which. ARGV[5]  "up" or "down", by name. ARGV[6]  only those beyond this one, or "". ARGV[7]  how many at most.
-- Returns for each its name and its value.

local names
if ARGV[5] == "up" then
  names = call("ZRANGEBYLEX", base .. ARGV[4] .. "_names", ARGV[6] ~= "" and "(" .. ARGV[6] or "-", "+", "LIMIT", 0, ARGV[7])
else
  names = call("ZREVRANGEBYLEX", base .. ARGV[4] .. "_names", ARGV[6] ~= "" and "(" .. ARGV[6] or "+", "-", "LIMIT", 0,
    ARGV[7])
end
local answers = {}
for i, name in ipairs(names) do
  answers[i] = { name, call("HGET", base .. ARGV[4], name) }
end
return answers
