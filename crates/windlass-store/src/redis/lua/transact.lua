-- Commits what was decided on several things at once: all of it if they are still as they were seen, or nothing.
--
-- ARGV[4]  how many guards, and the guards; then how many acts, and the acts. Each begins with its word:
--   free <id>                      no task has the id
--   at <name> <revision>           the task is at this revision
--   there <name>                   the task is there
--   alone <name>                   nobody waits for the end of the task
--   gone <name>                    the task is forgotten
--   ended <name> <state>           the task is in this state
--   holder <key> <name>            this task took the unique key last; "" for nobody
--   is <hash> <field> <value>      the field has this value; "" for none
--   few <hash> <max>               the hash has fewer fields than this
--   room <queue> <max>             at most so many wait in the queue
--   under <limit> <max>            at most so many wait under the limit
--   waits <parent> <child>         the child has yet to be told the end of its parent
--   queue <queue> <max>            there is room for this queue, of so many: if not, the answer is "crowded"
--   add ...                        a new task: its shape (`read_shape`), its own (`write_new`), and its unique key or ""
--   change ...                     a change whose condition a guard has seen to (`change`)
--   try ...                        a change that may find another revision: that is its answer, and no matter of the others
--   put <hash> <field> <value>     and take <hash> <field>
--   rank <set> <score> <member>    and unrank <set> <member>
--   await <parent> <child>         the child waits for the parent; "+n" is the n-th task that this call adds
--   told <parent> <child>          it waits no more
--   back ...                       a task as another store had it
--   reach <number>                 no task is given this number or a lower one
-- Returns "late" if it comes too late (`is_late`), "stale" or "crowded" if a guard fails; else an answer for each act.
--
-- This is the way of all that is rare. A repeated call would find its own work in the way, so what was answered is kept
-- for a while under the number of the call.

if again then
  local before = call("GET", memory)
  if before then
    return cjson.decode(before)
  end
end

local at = 5
local function next_arg()
  at = at + 1
  return ARGV[at - 1]
end

local guards = {
  free = function()
    return call("HEXISTS", base .. "ids", next_arg()) == 0
  end,
  at = function()
    local row, revision = find(next_arg()), next_arg()
    return row and row.revision == revision
  end,
  there = function()
    return find(next_arg())
  end,
  alone = function()
    local row = find(next_arg())
    return row and row.awaited == "0"
  end,
  gone = function()
    return not find(next_arg())
  end,
  ended = function()
    local row, state = find(next_arg()), next_arg()
    return row and row.state == state
  end,
  holder = function()
    local key, name = next_arg(), next_arg()
    return (call("HGET", base .. "unique", key) or "") == name
  end,
  is = function()
    local hash, field, value = next_arg(), next_arg(), next_arg()
    return (call("HGET", base .. hash, field) or "") == value
  end,
  few = function()
    local hash, most = next_arg(), tonumber(next_arg())
    return call("HLEN", base .. hash) < most
  end,
  room = function()
    local queue, most = next_arg(), tonumber(next_arg())
    return waiting_in(queue) <= most
  end,
  under = function()
    local limit, most = next_arg(), tonumber(next_arg())
    return waiting_under(limit) <= most
  end,
  queue = function()
    local queue, most = next_arg(), tonumber(next_arg())
    return has_room({ [queue] = true }, most)
  end,
  waits = function()
    local parent, child = next_arg(), next_arg()
    return call("ZSCORE", base .. "waits/" .. parent, child)
  end,
}

if is_late() then
  return "late"
end
for _ = 1, tonumber(ARGV[4]) do
  local word = next_arg()
  if not guards[word]() then
    return word == "queue" and "crowded" or "stale"
  end
end

local added = {}

-- Only when the task may be forgotten depends on this, so it keeps its revision and its lease.
local function set_awaited(name, awaited)
  local row = find(name)
  if not row or row.awaited == awaited then
    return
  end
  if row.prune ~= "-" then
    leave_ends(name, row)
  end
  row.awaited = awaited
  call(awaited == "1" and "SADD" or "SREM", base .. "awaited", name)
  if row.prune ~= "-" then
    enter_ends(name, row)
  end
  write_row(name, row, string.match(row.value, "\n(.*)$"))
end

local function named(text)
  local place = string.match(text, "^%+(%d+)$")
  return place and name_of(added[tonumber(place)]) or text
end

local acts = {
  add = function()
    local shape, own = read_shape(at), at + SHAPE_ARGS
    local number, unique = (next_numbers(1)), ARGV[own + NEW_ARGS]
    at = own + NEW_ARGS + 1
    know_queue(shape.queue)
    count_new(shape, 1)
    give_id(ARGV[own], write_new(number, shape, own))
    place_new(shape)
    if unique ~= "" then
      call("HSET", base .. "unique", unique, name_of(number))
    end
    added[#added + 1] = number
    return number
  end,
  change = function()
    ARGV[at] = named(ARGV[at])
    local answer = change(at)
    at = at + CHANGE_ARGS
    return answer
  end,
  put = function()
    local hash, field, value = next_arg(), next_arg(), next_arg()
    call("HSET", base .. hash, field, value)
    return "done"
  end,
  take = function()
    local hash, field = next_arg(), next_arg()
    call("HDEL", base .. hash, field)
    return "done"
  end,
  rank = function()
    local set, score, member = next_arg(), next_arg(), next_arg()
    local place = string.match(score, "^%+(%d+)$")
    call("ZADD", base .. set, place and added[tonumber(place)] or score, member)
    return "done"
  end,
  unrank = function()
    local set, member = next_arg(), next_arg()
    call("ZREM", base .. set, member)
    return "done"
  end,
  await = function()
    local parent, child = named(next_arg()), named(next_arg())
    call("ZADD", base .. "waits/" .. parent, tonumber(child), child)
    set_awaited(parent, "1")
    return "done"
  end,
  told = function()
    local parent, child = next_arg(), next_arg()
    call("ZREM", base .. "waits/" .. parent, child)
    if call("EXISTS", base .. "waits/" .. parent) == 0 then
      set_awaited(parent, "0")
    end
    return "done"
  end,
}
acts.try = acts.change

local function at_least(field, number)
  if tonumber(call("HGET", KEYS[1], field) or 0) < tonumber(number) then
    call("HSET", KEYS[1], field, number)
  end
end

acts.reach = function()
  at_least("number", next_arg())
  return "done"
end

-- Name, id, line, record, body, the unique key that it holds, the highest numbers of its places and of its leases, what stands in
-- `held` before the beat, and who holds it. Returns "added", "there" or "clash".
acts.back = function()
  local name, id, line, record, body = next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
  local unique, number, claims, lease, worker = next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
  local taken = name_by(id)
  if taken == name then
    return "there"
  end
  if taken or call("HEXISTS", base .. "tasks", name) == 1 or tonumber(call("HGET", base .. "ledger", "removed") or 0) > 0 then
    return "clash"
  end
  local row = parse(line .. "\n" .. record)
  call("HSET", base .. "tasks", name, row.value)
  call("HSET", base .. "bodies", name, body)
  if row.awaited == "1" then
    call("SADD", base .. "awaited", name)
  end
  give_id(id, name)
  know_queue(row.queue)
  enter(name, row)
  if lease ~= "" then
    local beat = text(call("HINCRBY", KEYS[1], "beat", 1))
    holds.set(name, table.concat({ lease, beat, worker }, " "))
  end
  if unique ~= "" then
    call("HSET", base .. "unique", unique, name)
  end
  at_least("number", number)
  at_least("claims", claims)
  move("ledger", "submitted", 1)
  return "added"
end

local answers = {}
for i = 1, tonumber(next_arg()) do
  answers[i] = acts[next_arg()]()
end
settle()
tell()
call("SET", memory, cjson.encode(answers), "PX", MEMORY_MS)
return answers
