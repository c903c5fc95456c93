-- Opens the gates whose next token has come, for those who wait and for whom no claim comes by.
--
-- ARGV[4]  the mark of the leader: one process at a time acts on time. ARGV[5]  now, on the wall.
-- Returns "stranger" if somebody else leads; else when the next token comes, or "".
--
-- It also goes on with what was too much for one call: what opened limits put back, and queues that began or ended to age. As
-- long as there is more of that, the next token is due at once.

if call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
go_on_when_full()
local now, more = advance(tonumber(ARGV[5]))
more = go_on_opening() or more
more = go_on_turning() or more
tell_openings()
if more then
  return text(now)
end
local next = call("ZRANGEBYSCORE", base .. "alarms", "(" .. text(now), "+inf", "WITHSCORES", "LIMIT", 0, 1)
return next[2] and text(tonumber(next[2])) or ""
