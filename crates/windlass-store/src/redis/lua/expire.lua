-- Notices leases that ended, so that they cannot be extended any more.
--
-- ARGV[4]  the mark of the leader, or "" if this needs no leader.
-- ARGV[5]  how many. For each: the name of the task, the beat of its lease as it was seen, and the worker.
-- Returns "stranger" if somebody else leads; else for each the row with its body if the lease has not moved since;
-- beat, length and worker if it has; or nothing if there is no lease any more.

if ARGV[4] ~= "" and call("GET", base .. "leader") ~= ARGV[4] then
  return "stranger"
end
go_on_when_full()
local answers = {}
for i = 1, tonumber(ARGV[5]) do
  local name, seen = ARGV[3 + 3 * i], ARGV[4 + 3 * i]
  local held = holds.of(name)
  local window, beat, worker
  if held then
    window, beat, worker = string.match(held, "^%S+ %S+ %S+ %S+ %S+ %S+ (%S+) %S+ (%S+) (%S+)")
  end
  if not held then
    answers[i] = false
  elseif tonumber(beat) == tonumber(seen) and worker == ARGV[5 + 3 * i] then
    -- The mark is the eleventh word; a worker may have its name.
    local noticed = string.match(held, "^" .. string.rep("%S+ ", 10) .. "x$")
    holds.set(name, noticed and held or held .. " x")
    answers[i] = { "ended", show(name, true) }
  else
    answers[i] = { "moved", beat, window, worker }
  end
end
return answers
