-- Numbers for the events that a process will tell of, which no other process gets.
--
-- ARGV[4]  now, in microseconds: numbers grow also when Redis lost its data.
-- ARGV[5]  how many.
-- Returns the first of them. A repeated call wastes some.

local first = math.max(tonumber(call("HGET", KEYS[1], "events") or "0"), tonumber(ARGV[4]))
call("HSET", KEYS[1], "events", text(first + tonumber(ARGV[5])))
return text(first)
