-- Some of the tasks that run under a limit.
--
-- ARGV[4]  the limit as <scope>/<name>. ARGV[5]  how many running tasks to look at. ARGV[6]  how many to name.
-- Returns their rows, in order of number.

local scope, name = string.sub(ARGV[4], 1, 1), string.sub(ARGV[4], 3)
local field = scope == "0" and "queue" or scope == "1" and "kind" or "key"
local rows = {}
local left = tonumber(ARGV[5])
for _, member in ipairs(call("ZRANGE", base .. "state/" .. RUNNING, 0, left - 1)) do
  local first, last = numbers.ends_of(member)
  for number = first, last do
    if left == 0 or #rows >= tonumber(ARGV[6]) then
      return rows
    end
    left = left - 1
    local task = name_of(number)
    if find(task)[field] == name then
      rows[#rows + 1] = show(task, false)
    end
  end
end
return rows
