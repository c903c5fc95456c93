-- Names in a share of the directory whose things were forgotten a while ago.
--
-- ARGV[4]  for how long, in milliseconds. ARGV[5]  how many at most.
-- Returns for each its name and what is stored for it. They leave the list: one that is in use again has no business in it.
--
-- An entry that somebody asked for since is young again: what it was put down for may still be on its way, so that nobody can say yet
-- whether it leads anywhere. Its turn comes when it is as old as the others.

local settled = time_here() - tonumber(ARGV[4])
local names = call("ZRANGEBYSCORE", base .. "homes_gone", "-inf", settled, "LIMIT", 0, ARGV[5])
local answers = {}
for _, name in ipairs(names) do
  local value = call("HGET", base .. "homes", name) or ""
  local stamp = string.match(value, "%d+$")
  if stamp and tonumber(stamp) > settled then
    call("ZADD", base .. "homes_gone", stamp, name)
  else
    call("ZREM", base .. "homes_gone", name)
    answers[#answers + 1] = { name, value }
  end
end
return answers
