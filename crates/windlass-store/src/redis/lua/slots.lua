-- Schedules whose next slot has come, earliest first.
--
-- ARGV[4]  the mark of the leader. ARGV[5]  now, on the wall. ARGV[6]  how many at most.
-- Returns "stranger" if somebody else leads; else for each its name and its value; and when the next one comes up, or "".

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
local now, most = tonumber(ARGV[5]), tonumber(ARGV[6])
local found = call("ZRANGE", base .. "schedule_wakes", 0, most, "WITHSCORES")
local answers = {}
for i = 1, #found, 2 do
  local at = tonumber(found[i + 1])
  if at > now or #answers >= most then
    return { answers, text(at) }
  end
  answers[#answers + 1] = { found[i], call("HGET", base .. "schedules", found[i]) }
end
return { answers, "" }
