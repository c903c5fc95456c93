-- The leases that began or moved since a beat, so that whoever leads can watch them on its own clock.
--
-- ARGV[4]  the last beat that was seen. ARGV[5]  how many at most.
-- Returns the last beat there was, and for each: name, beat, length, worker; in order of beats.

local answers = { text(tonumber(call("HGET", KEYS[1], "beat") or "0")) }
local found = call("ZRANGEBYSCORE", base .. "leases", "(" .. ARGV[4], "+inf", "WITHSCORES", "LIMIT", 0, ARGV[5])
for i = 1, #found, 2 do
  local held = call("HGET", base .. "held", found[i])
  if held then
    local window, worker = string.match(held, "^%S+ %S+ %S+ %S+ %S+ %S+ (%S+) %S+ %S+ (%S+)")
    answers[#answers + 1] = { found[i], text(tonumber(found[i + 1])), window, worker }
  end
end
return answers
