-- Moves the ends of leases, each under the token that holds it.
--
-- ARGV[4]  now, on the wall.
-- ARGV[5]  how many. For each: id, number and secret of the token, length or "" for that of the claim, progress or "".
-- Returns for each the new end, the beat and the length; "lost" if the reaper has noticed its end; the row of the task if
-- the token does not hold it, for core to say why; or nothing if there is no such task.
--
-- A beat is no time: it only grows, and says to whoever watches the leases that this one moved (see leases.rs).

go_on_when_full()
local now = tonumber(ARGV[4])
local answers = {}
for i = 1, tonumber(ARGV[5]) do
  local at = 6 + (i - 1) * 5
  local name = call("HGET", base .. "ids", ARGV[at])
  local held = name and holds.of(name)
  local head, number, secret, tail, length, worker, lost
  if held then
    head, number, secret, tail, length, worker, lost =
      string.match(held, "^(%S+ (%S+) (%S+)) (%S+ (%S+) %S+) %S+ %S+ %S+ (%S+)(.*)$")
  end
  if not name then
    answers[i] = false
  elseif number ~= ARGV[at + 1] or secret ~= ARGV[at + 2] then
    answers[i] = show(name, false)
  elseif lost ~= "" then
    answers[i] = "lost"
  else
    local window = ARGV[at + 3] ~= "" and ARGV[at + 3] or length
    local beat = text(call("HINCRBY", KEYS[1], "beat", 1))
    local ends = text(now + tonumber(window))
    holds.set(name, table.concat({ head, tail, window, ends, beat, worker }, " "))
    if ARGV[at + 4] ~= "" then
      call("HSET", base .. "progress", name, ARGV[at + 4])
    end
    answers[i] = { ends, beat, window, name, worker }
  end
end
return answers
