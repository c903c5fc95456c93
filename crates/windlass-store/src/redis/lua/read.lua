-- Looks tasks up.
--
-- ARGV[4]  "1" with bodies, else "0".
-- ARGV[5]  how many. For each: by what ("id", "name" or "key", a unique one), and the value.
-- Returns for each its row, or nothing.

local answers = {}
for i = 1, tonumber(ARGV[5]) do
  local by, value = ARGV[4 + 2 * i], ARGV[5 + 2 * i]
  local name = value
  if by == "id" then
    name = call("HGET", base .. "ids", value)
  elseif by == "key" then
    name = call("HGET", base .. "unique", value)
  end
  answers[i] = name and show(name, ARGV[4] == "1")
end
return answers
