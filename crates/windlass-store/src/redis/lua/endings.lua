-- Tasks that ended while others wait for them, the oldest first, with some of those who wait.
--
-- ARGV[4]  how many who wait, in all.
-- Returns for each: its name, its state, and for each who waits its name and its row, or nothing if it is forgotten.

local left = tonumber(ARGV[4])
local answers = {}
for _, parent in ipairs(call("ZRANGE", base .. "ended", 0, left - 1)) do
  if left <= 0 then
    break
  end
  local children = call("ZRANGE", base .. "waits/" .. parent, 0, left - 1)
  left = left - #children
  for i, child in ipairs(children) do
    children[i] = { child, show(child, false) }
  end
  answers[#answers + 1] = { parent, find(parent).state, children }
end
return answers
