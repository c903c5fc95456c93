-- The leases that began or moved since a beat, so that whoever leads can watch them on its own clock.
--
-- ARGV[4]  the last beat that was seen. ARGV[5]  how many members of `held` at most, but for those that share the last beat.
-- ARGV[6]  "1" to leave the number of this call behind, as `observed` in `meta`.
-- Returns the last beat there was, the history that this server writes to, and for each: the first and the last name, beat, length,
-- worker; in order of beats.
--
-- A server that came back without its last writes, and one that took the place of another, begins a history. In it beats may be given
-- again that were seen before, and mean other leases. Whoever finds its own number where it left it knows without asking for the
-- history that nothing is lost of what it saw.

local history = string.match(call("INFO", "replication"), "master_replid:(%w+)")
local answers = { text(tonumber(call("HGET", KEYS[1], "beat") or "0")), history or "" }
if ARGV[6] == "1" then
  go_on_when_full()
  call("HSET", KEYS[1], "observed", nonce)
end
local found = call("ZRANGEBYSCORE", base .. "leases", "(" .. ARGV[4], "+inf", "LIMIT", 0, ARGV[5])

local seen, last = {}, nil
local function answer(name)
  local hold = not seen[name] and holds.find(name)
  if hold then
    local window, beat, worker = string.match(hold.terms, "^%S+ %S+ %S+ %S+ %S+ %S+ (%S+) %S+ (%S+) (%S+)")
    answers[#answers + 1] = { name, name_of(hold.last), beat, window, worker }
    seen[name], last = true, beat
  end
end

for _, name in ipairs(found) do
  answer(name)
end
-- Members that were split share a beat, and who goes on behind it must have seen them all.
if last and #found == tonumber(ARGV[5]) then
  for _, name in ipairs(call("ZRANGEBYSCORE", base .. "leases", last, last)) do
    answer(name)
  end
end
return answers
