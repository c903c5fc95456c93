-- Schedules whose next slot has come, earliest first on either time line.
--
-- ARGV[4]  the mark of the leader. ARGV[5]  now, on the wall. ARGV[6]  now, on elapsed time. ARGV[7]  how many at most.
-- Returns "stranger" if somebody else leads; else for each its name and its value; and when the next one comes up on the wall and on
-- elapsed time, or "".

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
local most = tonumber(ARGV[7])
local answers = {}

local function come_up(order, now)
  local found = call("ZRANGE", base .. order, 0, most, "WITHSCORES")
  for i = 1, #found, 2 do
    local at = tonumber(found[i + 1])
    if at > now or #answers >= most then
      return text(at)
    end
    answers[#answers + 1] = { found[i], call("HGET", base .. "schedules", found[i]) }
  end
  return ""
end

local wall = come_up("schedule_wakes", tonumber(ARGV[5]))
local elapsed = come_up("schedule_elapses", tonumber(ARGV[6]))
return { answers, wall, elapsed }
