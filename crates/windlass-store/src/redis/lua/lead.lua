-- Who acts on time: promotes, reaps, prunes, fires. One process at a time leads.
--
-- ARGV[4]  who asks.
-- ARGV[6]  "lead" to begin or go on; ARGV[5]  for how long unless it asks again, in milliseconds.
--          ARGV[7]  elapsed time, from which a later process continues.
--          "resign" to stop; ARGV[5]  a term that the next one is to be above.
--          "seize" to begin whoever leads, until somebody else does: of a part of a spread store whose first part it leads (lead.rs);
--          ARGV[5]  its term there.
-- Returns the mark of the leader, which is who it is and its term; or, if somebody else leads, for how many milliseconds it
-- does so unless it asks again: before that there is nothing to ask for. To whoever would seize for an earlier term than
-- somebody did before: that later one.
--
-- A term never comes again. Scripts that only a leader calls are given the mark, so one that was taken for dead and
-- comes back finds that it does not lead any more. How long is measured by Redis alone, so no clocks are compared.

local key = base .. "leader"
local holder = call("GET", key)
local mine = holder and string.match(holder, "^(%S+):%d+$") == ARGV[4]
if ARGV[6] == "resign" then
  if mine then
    call("DEL", key)
    if tonumber(call("HGET", KEYS[1], "term") or "0") < tonumber(ARGV[5]) then
      call("HSET", KEYS[1], "term", ARGV[5])
    end
    tell()
  end
  return false
end
if ARGV[6] == "seize" then
  local later = tonumber(call("HGET", KEYS[1], "head") or "0")
  if later > tonumber(ARGV[5]) then
    return later
  end
  go_on_when_full()
  local mark = ARGV[4] .. ":" .. text(call("HINCRBY", KEYS[1], "term", 1))
  call("HSET", KEYS[1], "head", ARGV[5])
  call("SET", key, mark)
  return mark
end
if holder and not mine then
  return call("PTTL", key)
end
go_on_when_full()
call("HSET", KEYS[1], "elapsed", ARGV[7])
if mine then
  call("PEXPIRE", key, ARGV[5])
  return holder
end
local mark = ARGV[4] .. ":" .. text(call("HINCRBY", KEYS[1], "term", 1))
call("SET", key, mark, "PX", ARGV[5])
return mark
