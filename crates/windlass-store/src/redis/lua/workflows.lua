-- Workflows: one by its id, or a page of them, newest first.
--
-- ARGV[4]  the id, or "". ARGV[5]  only those whose first task has a smaller number, or "". ARGV[6]  how many at most.
-- Returns for each: id, number of its first task, value, and the counts by state.

local ids
if ARGV[4] ~= "" then
  ids = { ARGV[4] }
else
  local from = ARGV[5] ~= "" and "(" .. ARGV[5] or "+inf"
  ids = call("ZREVRANGEBYSCORE", base .. "workflow_order", from, "-inf", "LIMIT", 0, ARGV[6])
end
local answers = {}
for _, id in ipairs(ids) do
  local first = call("ZSCORE", base .. "workflow_order", id)
  if first then
    local answer = { id, text(tonumber(first)), call("HGET", base .. "workflows", id) }
    for _, count in ipairs(call("HMGET", base .. "workflow/" .. id, "0", "1", "2", "3", "4", "5", "6", "7")) do
      answer[#answer + 1] = count or "0"
    end
    answers[#answers + 1] = answer
  end
end
return answers
