-- A paused queue accepts tasks and gives out none.
--
-- ARGV[4]  the queue. ARGV[5]  "1" to pause it, "0" to go on.

go_on_when_full()
know_queue(ARGV[4])
call("HSET", base .. "queue/" .. ARGV[4], "paused", ARGV[5])
tell()
return "done"
