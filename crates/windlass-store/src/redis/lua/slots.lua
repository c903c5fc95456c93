-- Schedules whose next slot has come, earliest first on each time line.
--
-- ARGV[4]  the mark of the leader. ARGV[5]  now, on the wall clock. ARGV[6]  now, on elapsed time. ARGV[7]  how many at most of each.
-- Returns "stranger" if another process leads; else for the wall clock, and then for elapsed time: the name and the value of each
-- schedule, and when the next one is due, or "".

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
local most = tonumber(ARGV[7])

local function come_up(order, now)
  local answers = {}
  local found = call("ZRANGE", base .. order, 0, most, "WITHSCORES")
  for i = 1, #found, 2 do
    local at = tonumber(found[i + 1])
    if at > now or #answers >= most then
      return answers, text(at)
    end
    answers[#answers + 1] = { found[i], call("HGET", base .. "schedules", found[i]) }
  end
  return answers, ""
end

local on_wall, wall = come_up("schedule_wakes", tonumber(ARGV[5]))
local counted, elapsed = come_up("schedule_elapses", tonumber(ARGV[6]))
return { on_wall, wall, counted, elapsed }
