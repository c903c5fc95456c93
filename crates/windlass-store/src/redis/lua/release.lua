-- Releases queues without tasks, those of one page by name. A queue that is paused or limited stays. Types need no release: what is
-- kept of them goes with their last live task.
--
-- ARGV[4]  only queues behind this one, or "". ARGV[5]  how many at most. ARGV[6]  "1" for all without tasks, "0" for those that the call before found
--          without tasks too, which is noted beside their counters.
-- Returns the last queue of the page, or "" behind all of them; and how many were released.

go_on_when_full()
local from = ARGV[4] ~= "" and "(" .. ARGV[4] or "-"
local names = call("ZRANGEBYLEX", base .. "queues", from, "+", "LIMIT", 0, ARGV[5])
local released = 0
for _, name in ipairs(names) do
  local counts = base .. "queue/" .. name
  local found = call("HMGET", counts, "paused", "idle", "0", "1", "2", "3", "4", "5", "6", "7")
  local tasks = 0
  for i = 3, 10 do
    tasks = tasks + tonumber(found[i] or 0)
  end
  if tasks > 0 then
    if found[2] then
      call("HDEL", counts, "idle")
    end
  elseif found[1] ~= "1" and call("HEXISTS", base .. "limits", "0/" .. name) == 0 then
    if ARGV[6] == "1" or found[2] then
      call("DEL", counts)
      call("ZREM", base .. "queues", name)
      released = released + 1
    else
      call("HSET", counts, "idle", "1")
    end
  end
end
return { #names == tonumber(ARGV[5]) and names[#names] or "", released }
