-- Notices leases that ended, so that they cannot be extended any more.
--
-- ARGV[4]  the mark of the leader, or "" if this needs no leader.
-- ARGV[5]  the bytes after which it is enough.
-- ARGV[6]  how many. For each: the name of the task, the beat of its lease as it was seen, and the worker.
-- Returns "stranger" if somebody else leads; else for each the row with its body if the lease has not moved since;
-- beat, length and worker if it has; nothing if there is no lease any more; and "later" for all behind what was enough.

if ARGV[4] ~= "" and call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
go_on_when_full()
local bytes, enough = 0, tonumber(ARGV[5])

local function notice(name, seen, by)
  local held = holds.of(name)
  if not held then
    return false
  end
  local window, beat, worker = string.match(held, "^%S+ %S+ %S+ %S+ %S+ %S+ (%S+) %S+ (%S+) (%S+)")
  if tonumber(beat) ~= tonumber(seen) or worker ~= by then
    return { "moved", beat, window, worker }
  end
  -- The mark is the eleventh word; a worker may have its name.
  local noticed = string.match(held, "^" .. string.rep("%S+ ", 10) .. "x$")
  holds.set(name, noticed and held or held .. " x")
  local row = show(name, true)
  bytes = bytes + #row[1] + #row[4]
  return { "ended", row }
end

local answers = {}
for i = 1, tonumber(ARGV[6]) do
  answers[i] = bytes >= enough and "later" or notice(ARGV[4 + 3 * i], ARGV[5 + 3 * i], ARGV[6 + 3 * i])
end
return answers
