-- Sets, changes or removes a limit.
--
-- ARGV[4]  now, on the wall. ARGV[5]  the limit as <scope>/<name>. ARGV[6]  its line (see gates.lua), or "" to remove it.
-- ARGV[7]  as many as there may be.
-- ARGV[8]  of a store that is spread and a limit that all parts know: the turn of whoever writes it, else "0". Who has an earlier
--          one than somebody who wrote here is told "outdated" and does nothing (spread/limits.rs).
-- Returns "outdated", "many", or "1" if there was one before, else "0".
--
-- It holds from the next claim on: what runs is counted already. Of a queue that begins to age every priority of a key gets a turn
-- of its own; when it ages no more only the first of all counts again. With very many keys that takes several calls (lanes.lua).

go_on_when_full()
local limit, written = ARGV[5], ARGV[6]
local now = gate_time(tonumber(ARGV[4]))
local before = again and call("GET", memory)
if before then
  return before
end

local turn = tonumber(ARGV[8])
if turn > 0 then
  if turn < tonumber(call("HGET", KEYS[1], "limits_turn") or 0) then
    return "outdated"
  end
  call("HSET", KEYS[1], "limits_turn", text(turn))
end
local old = gate_of(limit)
local answer = old and "1" or "0"
if written == "" and not old then
  return answer
end
local number = tonumber(call("HGET", KEYS[1], "limits") or 0)
if not old and number >= tonumber(ARGV[7]) then
  return "many"
end

local was = closed(old)
local new = written ~= "" and read_limit(limit, written)
if new then
  call("HSET", base .. "limits", limit, written)
  call("ZADD", base .. "limit_order", 0, limit)
  limited = true
  gates[limit] = nil
  new = gate_of(limit)
  tick(new, now)
  keep_window(new)
else
  call("HDEL", base .. "limits", limit)
  call("ZREM", base .. "limit_order", limit)
  call("HDEL", base .. "windows", limit)
  call("ZREM", base .. "alarms", limit)
  gates[limit] = false
end
call("HINCRBY", KEYS[1], "limits_set", 1)
call("HINCRBY", KEYS[1], "limits", (new and 1 or 0) - (old and 1 or 0))
call("HINCRBY", KEYS[1], "depths", (new and new.depth and 1 or 0) - (old and old.depth and 1 or 0))

local queue = string.match(limit, "^0/(.*)$")
if queue and (new and new.ageing ~= nil) ~= (old and old.ageing ~= nil or false) then
  -- All that have turns, some of which this call turns over.
  if call("SUNIONSTORE", base .. "turning/" .. queue, base .. "parties/" .. queue) > 0 then
    call("SADD", base .. "turning", queue)
    call("HSET", KEYS[1], "turning", 1)
    turning = true
    if go_on_turning() then
      tell_leader()
    end
  end
end
if was and not closed(new) then
  open_up(old)
end
tell_openings()
if new and new.drained then
  tell_leader()
end
call("SET", memory, answer, "PX", MEMORY_MS)
return answer
