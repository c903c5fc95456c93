-- Tasks whose time has come, earliest first.
--
-- ARGV[4]  the mark of the leader: only one process at a time acts on time.
-- ARGV[5]  the order: "wakes" or "prunes".
-- ARGV[6]  now, on the wall. ARGV[7]  how many at most. ARGV[8]  the bytes after which it is enough.
-- Returns "stranger" if somebody else leads; else the rows with bodies, and when the next one comes up, or "".

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
local now, most, enough = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local found = call("ZRANGE", base .. ARGV[5], 0, most, "WITHSCORES")
local rows, bytes = {}, 0
for i = 1, #found, 2 do
  local at = tonumber(found[i + 1])
  -- Those that are to be forgotten at one time may be one member.
  local first, last = numbers.ends_of(found[i])
  for number = first, last do
    if at > now or #rows >= most or bytes >= enough then
      return { rows, text(at) }
    end
    local row = show(name_of(number), true)
    bytes = bytes + #row[1] + #row[4]
    rows[#rows + 1] = row
  end
end
return { rows, "" }
