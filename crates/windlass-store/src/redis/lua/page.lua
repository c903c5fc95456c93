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
local beyond, limit = tonumber(ARGV[5]), tonumber(ARGV[6])

-- The members that may be on the page; one that begins before it may reach into it.
local function members_of(key)
  if down then
    return call("ZREVRANGEBYSCORE", key, beyond and "(" .. text(beyond) or "+inf", "-inf", "LIMIT", 0, most + 1)
  end
  local members = call("ZRANGEBYSCORE", key, beyond and "(" .. text(beyond) or "-inf", "+inf", "LIMIT", 0, most + 1)
  local before = beyond and call("ZREVRANGEBYSCORE", key, text(beyond), "-inf", "LIMIT", 0, 1)[1]
  if before then
    table.insert(members, 1, before)
  end
  return members
end

for i = 10, #ARGV do
  local many = 0
  for _, member in ipairs(members_of(base .. "state/" .. ARGV[i])) do
    local lowest, highest = numbers.ends_of(member)
    if down then
      lowest, highest = math.max(lowest, limit or lowest), math.min(highest, beyond and beyond - 1 or highest)
    else
      lowest, highest = math.max(lowest, beyond and beyond + 1 or lowest), math.min(highest, limit or highest)
    end
    for number = down and highest or lowest, down and lowest or highest, down and -1 or 1 do
      if many > most then
        break
      end
      many = many + 1
      names[#names + 1] = name_of(number)
    end
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
