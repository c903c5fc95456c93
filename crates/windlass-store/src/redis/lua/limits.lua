-- Limits and what counts towards them: some by name, or a page of them in order of scope and name.
--
-- ARGV[4]  "these" with the limits as <scope>/<name> behind it; or "page" with the bounds of ZRANGEBYLEX, and how many at most.
-- Returns for each: its name, its line, until when its rate is used up or "", how many wait, how many run.

local names = {}
if ARGV[4] == "these" then
  for i = 5, #ARGV do
    names[#names + 1] = ARGV[i]
  end
else
  names = call("ZRANGEBYLEX", base .. "limit_order", ARGV[5], ARGV[6], "LIMIT", 0, ARGV[7])
end
local answers = {}
for _, name in ipairs(names) do
  local gate = gate_of(name)
  if gate then
    answers[#answers + 1] = { name, call("HGET", base .. "limits", name), gate.drained and text(gate.drained) or "",
      text(waiting_under(name)), text(gate.stored) }
  end
end
return answers
