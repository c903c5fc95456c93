-- Adds tasks, each by itself: what one of them meets is no matter of the others.
--
-- ARGV[4]  as many as may wait in a queue, or "" for no bound.
-- ARGV[5]  how many queues there may be.
-- ARGV[6]  how many shapes, and the arguments of `read_shape` for each; then how many tasks, and for each the number of its shape
--          and the arguments of `write_new`.
-- Returns "crowded" if there are too many queues; else for each its number; or, if its id is taken, the row of the task that has it, with its body: whether the
-- submit repeats that one is for Rust to say; or "full"; or "late", if it would be new but comes too late; or "full", the limit that as many wait under as may, and how many.
--
-- A call that is repeated finds its tasks by their ids, unless they are kept so shortly that they may have ended and be forgotten by
-- then: those are remembered by the number of the call.
--
-- Batches in which tasks look at each other or at others (unique keys, dependencies, all or nothing) come through
-- transact.lua. This is the way of nearly all submits, in one call and without reading anything first.

local bound = tonumber(ARGV[4])
local bounded = tonumber(call("HGET", KEYS[1], "depths") or 0) > 0
local TASK_ARGS = 1 + NEW_ARGS

local shapes, queues, at = {}, {}, 7
for i = 1, tonumber(ARGV[6]) do
  shapes[i] = read_shape(at)
  shapes[i].many = 0
  queues[shapes[i].queue] = true
  at = at + SHAPE_ARGS
end
if not has_room(queues, tonumber(ARGV[5])) then
  return "crowded"
end
local many, first = tonumber(ARGV[at]), at + 1

-- The limit that lets no more wait, if there is one.
local function full(shape)
  if bound and waiting_in(shape.queue) >= bound then
    return "full"
  end
  if not bounded then
    return nil
  end
  local key = shape.key ~= NO_KEY and "2/" .. shape.key or nil
  for _, limit in ipairs({ "0/" .. shape.queue, "1/" .. shape.kind, key }) do
    local gate = gate_of(limit)
    if gate and gate.depth and waiting_under(limit) >= gate.depth then
      return { "full", limit, text(gate.depth) }
    end
  end
end

local before, late = remembered() or {}, is_late()
local ids = {}
for i = 1, many do
  ids[i] = ARGV[first + (i - 1) * TASK_ARGS + 1]
end
look_up("ids", ids, known_ids)

-- Which tasks are added must be known before they are numbered, so that their numbers follow each other.
local answers, mine, given, new = {}, {}, {}, 0
for i, id in ipairs(ids) do
  local shape = shapes[tonumber(ARGV[first + (i - 1) * TASK_ARGS])]
  local free = not before[i] and not known_ids[id] and not mine[id]
  local refused = free and (late and "late" or full(shape))
  if before[i] or refused then
    answers[i] = before[i] or refused
  elseif free then
    mine[id], new = shape, new + 1
    if bound or bounded then
      count_new(shape, 1)
    else
      shape.many = shape.many + 1
    end
  end
end
for _, shape in ipairs(shapes) do
  if shape.many > 0 then
    count_new(shape, shape.many)
  end
end

local number, step, words, taken = 0, 1, {}, {}
if new > 0 then
  number, step = next_numbers(new)
end
for i, id in ipairs(ids) do
  if not answers[i] and mine[id] then
    know_queue(mine[id].queue)
    local name, at = write_new(number, mine[id], first + (i - 1) * TASK_ARGS + 1), #words
    words[at + 1], words[at + 2], known_ids[id] = id, name, name
    answers[i], mine[id] = number, nil
    number = number + step
  elseif not answers[i] then
    taken[#taken + 1] = i
  end
  given[i] = type(answers[i]) == "number" and answers[i]
end
call_for_all("HSET", base .. "ids", words, 2)
for _, shape in ipairs(shapes) do
  place_new(shape)
end
-- It may be one of this very call.
for _, i in ipairs(taken) do
  answers[i] = show(known_ids[ids[i]], true)
end
settle()
if new > 0 then
  remember(given)
  tell()
end
return answers
