-- The one place where a task moves between the orders.

-- An ended task that others wait for stands in the line of those who have yet to tell it.
local function end_key(row)
  if row.awaited == "1" and (row.state == COMPLETED or row.state == CANCELLED) then
    return "ended"
  end
  return "prunes"
end

-- Whoever leads must hear that there is an end to tell, whoever made it.
local function enter_ends(name, row)
  local order = end_key(row)
  if order == "prunes" then
    stand(order, name, row.prune)
  else
    stand(order, name, name)
    call("PUBLISH", base .. "hints", "- - - +d")
  end
end

-- A task leaves where it stood with its end.
local function leave_ends(name, row)
  local order = end_key(row)
  if order ~= "prunes" then
    stand(order, name, false)
  elseif places.prunes and places.prunes[name] then
    -- It entered by this call.
    places.prunes[name] = nil
  else
    numbers.spare(row.prune, name)
  end
end

-- A task is in the order of the wall clock, in that of elapsed time, or in both (row.lua).
local function stand_to_wake(name, row, there)
  if row.wake ~= "-" then
    local wall, elapsed = string.match(row.wake, "^(%d*)~?(%d*)$")
    if wall ~= "" then
      stand("wakes", name, there and wall)
    end
    if elapsed ~= "" then
      stand("elapses", name, there and elapsed)
    end
  end
end

-- Takes a task out of every order that its line says it is in. `gone` says that it has left the line of ready tasks already.
local function leave(name, row, gone)
  count(row, -1)
  numbers.leave("state/" .. row.state, name)
  if row.state == PENDING then
    numbers.leave("age/" .. row.queue, name)
    if not gone then
      leave_line(name, row)
    end
  end
  stand_to_wake(name, row, false)
  if row.prune ~= "-" then
    leave_ends(name, row)
  end
end

-- Puts a task that is counted into every order that its line says it is in. Who holds it is said where it is given (held.lua).
local function take_places(name, row)
  numbers.enter("state/" .. row.state, name)
  if row.state == PENDING then
    numbers.enter("age/" .. row.queue, name)
    enter_line(name, row)
  end
  stand_to_wake(name, row, true)
  if row.prune ~= "-" then
    enter_ends(name, row)
  end
end

local function enter(name, row)
  count(row, 1)
  take_places(name, row)
end

-- Names by id, as far as this call knows them; false for an id that nobody has. Those that it gives are written at its end.
local known_ids, given_ids = {}, {}

-- Reads what a hash has of many names at once, into `found`.
local function look_up(hash, names, found)
  for from = 1, #names, WORDS_MAX do
    local till = math.min(from + WORDS_MAX - 1, #names)
    for i, value in ipairs(call("HMGET", base .. hash, unpack(names, from, till))) do
      found[names[from + i - 1]] = value
    end
  end
end

local function name_by(id)
  if known_ids[id] == nil then
    known_ids[id] = call("HGET", base .. "ids", id)
  end
  return known_ids[id]
end

local function give_id(id, name)
  known_ids[id], given_ids[id] = name, name
end

local function free_id(id)
  known_ids[id], given_ids[id] = false, nil
  call("HDEL", base .. "ids", id)
end

local function settle_ids()
  local words = {}
  for id, name in pairs(given_ids) do
    words[#words + 1] = id
    words[#words + 1] = name
  end
  given_ids = {}
  call_for_all("HSET", base .. "ids", words, 2)
end

-- The queues that this call has seen. A queue stays until it has been without tasks for a while (release.lua), and there is a bound to them.
local known_queues = {}

local function is_known(queue)
  if not known_queues[queue] then
    known_queues[queue] = call("ZSCORE", base .. "queues", queue) and true
  end
  return known_queues[queue]
end

local function know_queue(queue)
  if not is_known(queue) then
    call("ZADD", base .. "queues", 0, queue)
    known_queues[queue] = true
  end
end

-- Whether there is room for these queues, `most` of them in all.
local function has_room(queues, most)
  local new = 0
  for queue in pairs(queues) do
    new = new + (is_known(queue) and 0 or 1)
  end
  return new == 0 or call("ZCARD", base .. "queues") + new <= most
end

-- Workflows of which a task was forgotten.
local thinned = {}

-- A workflow is kept as long as one of its tasks is.
local function forget_workflow(group)
  local key = base .. "workflow/" .. group
  local counts = call("HMGET", key, "0", "1", "2", "3", "4", "5", "6", "7")
  for i = 1, 8 do
    if counts[i] and tonumber(counts[i]) > 0 then
      return
    end
  end
  call("DEL", key)
  call("HDEL", base .. "workflows", group)
  call("ZREM", base .. "workflow_order", group)
end

-- Every script that moves tasks ends with this: orders and counters are written, and what they show is done.
local function settle()
  settle_ids()
  write_lines()
  numbers.settle()
  settle_places()
  settle_counts()
  for group in pairs(thinned) do
    forget_workflow(group)
  end
end

-- What a new task has in common with others that came with it, from the arguments that begin at `at`: state, priority, class,
-- created, wake, expires, workflow, queue, kind, moment from which it waits, key. It is their row, but for their places in line.
local SHAPE_ARGS = 11
local function read_shape(at)
  local row = {
    revision = "1", order = "", state = ARGV[at], priority = ARGV[at + 1], class = ARGV[at + 2], created = ARGV[at + 3],
    wake = ARGV[at + 4], prune = "-", expires = ARGV[at + 5], awaited = "0", group = ARGV[at + 6], nonce = nonce,
    queue = ARGV[at + 7], kind = ARGV[at + 8], ready = ARGV[at + 9], key = ARGV[at + 10],
  }
  -- The line of each of them behind its place, and who they are.
  row.rest, row.names, row.numbers = string.sub(line_of(row), 3) .. "\n", {}, {}
  row.tasks, row.bodies = {}, {}
  return row
end

-- A new task that is counted, and is written when those of its shape take their places (`place_new`). Its own arguments begin at
-- `at`: id, record, body. Returns its name.
local NEW_ARGS = 3
local function write_new(number, shape, at)
  local name, many = name_of(number), #shape.names + 1
  shape.names[many], shape.numbers[many] = name, number
  shape.tasks[2 * many - 1], shape.tasks[2 * many] = name, "1 " .. text(number) .. shape.rest .. ARGV[at + 1]
  shape.bodies[2 * many - 1], shape.bodies[2 * many] = name, ARGV[at + 2]
  return name
end

-- The new tasks of a shape are written and take their places: those of the usual one all at once.
local function place_new(shape)
  call_for_all("HSET", base .. "tasks", shape.tasks, 2)
  call_for_all("HSET", base .. "bodies", shape.bodies, 2)
  if shape.state ~= PENDING or shape.wake ~= "-" or shape.key ~= NO_KEY then
    for i, name in ipairs(shape.names) do
      shape.order = text(shape.numbers[i])
      take_places(name, shape)
    end
    return
  end
  if #shape.names == 0 then
    return
  end
  local runs = numbers.runs_of(shape.names)
  numbers.put("state/" .. PENDING, runs)
  numbers.put("age/" .. shape.queue, runs)
  enter_lane(shape, shape.names, shape.numbers)
end

local function count_new(shape, many)
  count(shape, many)
  move("ledger", "submitted", many)
end

-- A decided change of the task that has the revision it was decided on, from the arguments that begin at `at`: name, id,
-- revision, act, whether it takes a place ("1") or only uses up the number of one ("2"), state, priority, class, wake, prune, expires, queue, record, ledger, unique key, what
-- becomes of the key, who must have it, moment from which it waits. Acts: "move" writes the record and moves the task, "keep" only writes it,
-- "drop" forgets the task. The key is kept (""), freed if it is the task's own ("free") or taken ("take").
-- Returns "done" with the order and whether others wait for the task, "conflict" or "missing".
local CHANGE_ARGS = 18
local function change(at)
  local name, act = ARGV[at], ARGV[at + 3]
  local row = find(name)
  if not row or name_by(ARGV[at + 1]) ~= name then
    return { "missing" }
  end
  if row.revision ~= ARGV[at + 2] then
    if again and row.nonce == nonce then
      return { "done", row.order, row.awaited }
    end
    return { "conflict" }
  end
  local unique, fate = ARGV[at + 14], ARGV[at + 15]
  if fate == "take" and (call("HGET", base .. "unique", unique) or "") ~= ARGV[at + 16] then
    return { "conflict" }
  end
  if act == "drop" and row.awaited == "1" then
    return { "conflict" }
  end
  row.nonce = nonce
  if act ~= "keep" then
    leave(name, row)
  end
  row.revision = text(tonumber(row.revision) + 1)
  if ARGV[at + 4] ~= "0" then
    local number = next_numbers(1)
    row.order = ARGV[at + 4] == "1" and text(number) or row.order
  end
  for field in string.gmatch(ARGV[at + 13], "%S+") do
    move("ledger", field, 1)
  end
  if fate == "free" and call("HGET", base .. "unique", unique) == name then
    call("HDEL", base .. "unique", unique)
  elseif fate == "take" then
    call("HSET", base .. "unique", unique, name)
  end
  if act == "drop" then
    call("HDEL", base .. "tasks", name)
    call("HDEL", base .. "bodies", name)
    free_id(ARGV[at + 1])
    if row.held then
      let_go(name)
    end
    if row.group ~= "-" then
      thinned[row.group] = true
    end
    return { "done", row.order, row.awaited }
  end
  if act == "keep" then
    write_row(name, row, ARGV[at + 12])
    if row.held then
      local token, length, rest = string.match(row.held, "^%S+ (%S+ %S+) %S+ (%S+) %S+ (.*)$")
      holds.set(name, table.concat({ row.revision, token, nonce, length, "-", rest }, " "))
    end
    return { "done", row.order, row.awaited }
  end
  local ran = row.state == RUNNING
  row.state, row.priority, row.class = ARGV[at + 5], ARGV[at + 6], ARGV[at + 7]
  row.wake, row.prune, row.expires, row.queue = ARGV[at + 8], ARGV[at + 9], ARGV[at + 10], ARGV[at + 11]
  row.ready = ARGV[at + 17]
  write_row(name, row, ARGV[at + 12])
  if ran then
    let_go(name)
  end
  know_queue(row.queue)
  enter(name, row)
  return { "done", row.order, row.awaited }
end

local function tell()
  if hint ~= "" then
    call("PUBLISH", base .. "hints", hint)
  end
end
