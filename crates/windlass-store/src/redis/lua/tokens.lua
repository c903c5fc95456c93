-- Opens the gates whose next token has come, for those who wait and for whom no claim comes by.
--
-- ARGV[4]  the mark of the leader: one process at a time acts on time. ARGV[5]  now, on the wall.
-- Returns "stranger" if somebody else leads; else when the next token comes, or "".

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
go_on_when_full()
local now, more = advance(tonumber(ARGV[5]))
tell_openings()
if more then
  return text(now)
end
local next = call("ZRANGEBYSCORE", base .. "alarms", "(" .. text(now), "+inf", "WITHSCORES", "LIMIT", 0, 1)
return next[2] and text(tonumber(next[2])) or ""
