-- A paused queue accepts tasks and gives out none.
--
-- ARGV[4]  the queue. ARGV[5]  "1" to pause it, "0" to go on. ARGV[6]  how many queues there may be.
-- Returns "done", or "crowded" if there are too many queues.

go_on_when_full()
if not has_room({ [ARGV[4]] = true }, tonumber(ARGV[6])) then
  return "crowded"
end
know_queue(ARGV[4])
call("HSET", base .. "queue/" .. ARGV[4], "paused", ARGV[5])
tell()
return "done"
