-- Tasks whose time has come, earliest first.
--
-- ARGV[4]  the mark of the leader: only one process at a time acts on time.
-- ARGV[5]  how many at most, of each order. ARGV[6]  the bytes after which it is enough.
-- ARGV[7] and following, for each order: its name ("wakes" uses the wall clock; "elapses" and "prunes" use elapsed time), and the present
-- time on its time line.
-- Returns "stranger" if another process leads; else for each order the rows with bodies, and when the next one is due, or "".

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
local most, enough, bytes = tonumber(ARGV[5]), tonumber(ARGV[6]), 0

local function come_up(order, now)
  local found = call("ZRANGE", base .. order, 0, most, "WITHSCORES")
  local rows = {}
  for i = 1, #found, 2 do
    local at = tonumber(found[i + 1])
    -- Those that are to be forgotten at one time may be one member.
    local first, last = numbers.ends_of(found[i])
    for number = first, last do
      if at > now or #rows >= most or bytes >= enough then
        return rows, text(at)
      end
      local row = show(name_of(number), true)
      bytes = bytes + #row[1] + #row[4]
      rows[#rows + 1] = row
    end
  end
  return rows, ""
end

local answer = {}
for i = 7, #ARGV, 2 do
  answer[#answer + 1], answer[#answer + 2] = come_up(ARGV[i], tonumber(ARGV[i + 1]))
end
return answer
