-- Looks tasks up.
--
-- ARGV[4]  "1" with bodies, else "0". ARGV[5]  the bytes after which it is enough.
-- ARGV[6]  how many. For each: by what ("id", "name" or "key", a unique one), and the value.
-- Returns for each its row, or nothing; none for those behind what was enough.

local answers, bytes, enough = {}, 0, tonumber(ARGV[5])
for i = 1, tonumber(ARGV[6]) do
  if bytes >= enough then
    break
  end
  local by, value = ARGV[5 + 2 * i], ARGV[6 + 2 * i]
  local name = value
  if by == "id" then
    name = call("HGET", base .. "ids", value)
  elseif by == "key" then
    name = call("HGET", base .. "unique", value)
  end
  local row = name and show(name, ARGV[4] == "1")
  bytes = bytes + (row and #row[1] + (ARGV[4] == "1" and #row[4] or 0) or 0)
  answers[i] = row
end
return answers
