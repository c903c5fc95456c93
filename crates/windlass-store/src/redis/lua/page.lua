-- A page of tasks, by number.
--
-- ARGV[4]  "down": the largest numbers first, or "up".
-- ARGV[5]  only numbers beyond this one, in that direction; "" for all.
-- ARGV[6]  no further than this one; "" for no end.
-- ARGV[7]  how many at most. ARGV[8]  "1" with bodies. ARGV[9]  the bytes after which a page is full.
-- ARGV[10...]  the states.
-- Returns the rows, and the number of the first one that was left out, or "".
--
-- There is an order for each state and none for all: the page is merged from as many as are asked for.

local down = ARGV[4] == "down"
local most, enough = tonumber(ARGV[7]), tonumber(ARGV[9])
local names = {}
for i = 10, #ARGV do
  local key = base .. "state/" .. ARGV[i]
  local found
  if down then
    local from = ARGV[5] ~= "" and "(" .. ARGV[5] or "+inf"
    found = call("ZREVRANGEBYSCORE", key, from, ARGV[6] ~= "" and ARGV[6] or "-inf", "LIMIT", 0, most + 1)
  else
    local from = ARGV[5] ~= "" and "(" .. ARGV[5] or "-inf"
    found = call("ZRANGEBYSCORE", key, from, ARGV[6] ~= "" and ARGV[6] or "+inf", "LIMIT", 0, most + 1)
  end
  for _, name in ipairs(found) do
    names[#names + 1] = name
  end
end
if down then
  table.sort(names, function(a, b) return a > b end)
else
  table.sort(names)
end
local rows, bytes = {}, 0
for i = 1, #names do
  if #rows >= most or bytes >= enough then
    return { rows, names[i] }
  end
  local row = show(names[i], ARGV[8] == "1")
  bytes = bytes + #row[1] + (ARGV[8] == "1" and #row[4] or 0)
  rows[#rows + 1] = row
end
return { rows, "" }
