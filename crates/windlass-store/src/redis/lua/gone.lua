-- Names in a share of the directory whose things were forgotten a while ago.
--
-- ARGV[4]  for how long, in milliseconds. ARGV[5]  how many at most.
-- Returns for each its name and what is stored for it. They leave the list: one that is in use again has no business in it.

local clock = call("TIME")
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local names = call("ZRANGEBYSCORE", base .. "homes_gone", "-inf", now - tonumber(ARGV[4]), "LIMIT", 0, ARGV[5])
local answers = {}
for _, name in ipairs(names) do
  call("ZREM", base .. "homes_gone", name)
  answers[#answers + 1] = { name, call("HGET", base .. "homes", name) or "" }
end
return answers
