-- Writes decided changes, each under its own condition.
--
-- ARGV[4]  how many; the arguments of `change` follow for each.
-- Returns for each "done" with its place in line, "conflict" or "missing".

local before = remembered()
if before then
  return before
end
go_on_when_full()
local answers = {}
local changed = false
for i = 1, tonumber(ARGV[4]) do
  answers[i] = change(5 + (i - 1) * CHANGE_ARGS)
  changed = changed or answers[i][1] == "done"
end
settle()
if changed then
  remember(answers)
  tell()
end
return answers
