-- Every process on a store calls this regularly. It records how far its clock is from the clock of this server, and reads back
-- the number of its last call.
--
-- ARGV[4]  the id of the calling process, and ARGV[5]  its name for people.
-- ARGV[6]  the number of this call, which grows.
-- ARGV[7]  its clock minus the clock here at its last call, in milliseconds; "" if it does not know yet.
-- ARGV[8]  the name for this data set if it has none yet.
-- ARGV[9]  how long others are shown after their last call, and ARGV[10]  how long they are remembered.
-- Returns the name of the data set, the number of the last recorded call of this process or "", the time of this server, and
-- for each other process its id, its name and its clock difference.

local SHOWN_MAX = 100
-- Users with restricted rights may be allowed to call INFO, and not TIME.
local clock = string.match(call("INFO", "server"), "server_time_usec:(%d+)")
local key, now = base .. "processes", math.floor(tonumber(clock or "0") / 1000)
local set = call("HGET", KEYS[1], "set")
if not set then
  set = ARGV[8]
  call("HSET", KEYS[1], "set", set)
end
local last, others = "", {}
local all = call("HGETALL", key)
for i = 1, #all, 2 do
  local number, heard, offset, name = string.match(all[i + 1], "^(%d+) (%d+) (%S+) (.*)$")
  local age = now - tonumber(heard or "0")
  if all[i] == ARGV[4] then
    last = number or ""
  elseif age > tonumber(ARGV[10]) then
    call("HDEL", key, all[i])
  elseif age <= tonumber(ARGV[9]) and offset ~= "-" and #others < SHOWN_MAX then
    others[#others + 1] = { all[i], name, offset }
  end
end
local offset = ARGV[7] == "" and "-" or ARGV[7]
call("HSET", key, ARGV[4], ARGV[6] .. " " .. text(now) .. " " .. offset .. " " .. ARGV[5])
return { set, last, text(now), others }
