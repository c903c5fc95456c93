-- The part that all scripts begin with: what a task is in Redis. Behind it come, in this order, held.lua (who holds running tasks),
-- numbers.lua (orders by number), gates.lua (what counts, and the limits that count it), lanes.lua (the lines of ready tasks) and
-- task.lua (where a task moves between the orders).
--
-- KEYS[1]  the key `meta`; every other key of the store has the same beginning, which is a hash tag.
-- ARGV[1]  "1" if this very call was sent before and its answer was lost, else "0". In a store that is spread (spread.rs)
--          there follow the number of this part, how many parts there are, the largest number that the caller has seen, and
--          perhaps the time of this server after which the call comes too late (`is_late`).
-- ARGV[2]  what to tell other processes if anything changes (see hints.rs), or "".
-- ARGV[3]  a number that only this call has: it tells a repeated commit from a conflict. It begins with "!" if what the call is
--          about may be forgotten before the call is repeated: then the answer is kept for a while (`remember`).
--
-- A task has a name: its number in 14 digits, so that equal times sort by number. What there is of it stands by its name in these
-- hashes, each of which has all tasks, so that a call reads and writes those of many by one command:
--   tasks     the line below, which is all that scripts need to know of a task, a line break, and the record as it was last
--             written by Rust
--   bodies    the body, which never changes
--   progress  what the worker reported of it
-- `wake` is when a task must be looked at: a time of the wall clock, "~" and one of elapsed time (which counts durations and is not
-- moved when the wall clock is set), both, or "-". `prune` is on elapsed time.
-- A claim writes only `held` (held.lua), which goes before what the line says of revision, state and wake. The set `awaited` has the names
-- of those whose end others wait for, as their lines say.
--
-- Numbers travel as text wherever nothing is computed with them: Lua has no integers and would round their printing.

local base = string.sub(KEYS[1], 1, -5)
local again, hint, nonce = string.sub(ARGV[1], 1, 1) == "1", ARGV[2], ARGV[3]
local call = redis.call

-- What finishes work goes on when Redis is full, because only that makes room again. Redis stops a script at its first command
-- that may take memory, unless the script has written before; a delete is a write that takes none.
local function go_on_when_full()
  call("DEL", base .. "none")
end

-- Longer than a call is tried (link.rs).
local MEMORY_MS = 20000
local memory = base .. "done/" .. nonce
local outlives = string.sub(nonce, 1, 1) == "!"

-- What this call answered before, if it was kept.
local function remembered()
  local before = again and outlives and call("GET", memory)
  return before and cjson.decode(before)
end

local function remember(answers)
  if outlives then
    call("SET", memory, cjson.encode(answers), "PX", MEMORY_MS)
  end
end

local PENDING, RUNNING, COMPLETED, CANCELLED = "2", "3", "5", "7"
-- Orders are below this, so that priority and order fit into the 53 bits of a score.
local ORDERS = 35184372088832
-- Stands for no key; no name has it.
local NO_KEY = "/"

-- Whole numbers all of them, and %d is printed in half the time of %.0f.
local function name_of(number)
  return string.format("%014d", number)
end

local function text(number)
  return string.format("%d", number)
end

-- The next numbers of tasks or of places in line: the first, and the step to each that follows. A part of a store that is spread
-- gives out only those that leave its own number when they are divided by the number of parts, and none below what the caller
-- has seen in another one.
local function next_numbers(many)
  local part, parts, seen = string.match(ARGV[1], "^%d (%d+) (%d+) (%d+)")
  if not part then
    return call("HINCRBY", KEYS[1], "number", many) - many + 1, 1
  end
  local last = math.max(tonumber(call("HGET", KEYS[1], "number") or "0"), tonumber(seen))
  local first = last + 1 + (tonumber(part) - last - 1) % tonumber(parts)
  call("HSET", KEYS[1], "number", text(first + (many - 1) * tonumber(parts)))
  return first, tonumber(parts)
end

-- Words that one command is given at once: Lua holds no more than a few thousand on its stack.
local WORDS_MAX = 4000

-- Calls a command for words of which `each` belong together, in as few calls as it takes. Returns the sum of what it answers.
local function call_for_all(command, key, words, each)
  local most, sum = WORDS_MAX - WORDS_MAX % each, 0
  for from = 1, #words, most do
    sum = sum + call(command, key, unpack(words, from, math.min(from + most - 1, #words)))
  end
  return sum
end

-- Where tasks will stand in the orders when this call ends: by order and name the score, or false for one that leaves. They are
-- written at the end, all of an order by one command; nothing that moves tasks reads these orders.
local places = {}

local function stand(order, name, score)
  local members = places[order]
  if not members then
    members = {}
    places[order] = members
  end
  members[name] = score
end

local function settle_places()
  local written = places
  places = {}
  for order, members in pairs(written) do
    local gone, come = {}, {}
    for name, score in pairs(members) do
      if score then
        come[#come + 1] = score
        come[#come + 1] = name
      else
        gone[#gone + 1] = name
      end
    end
    call_for_all("ZREM", base .. order, gone, 1)
    call_for_all("ZADD", base .. order, come, 2)
  end
end

local function time_here()
  local clock = call("TIME")
  return tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
end

-- Whether the names that the caller has put down for this call may have been given to others by now (spread/homes.rs): it was
-- held up on its way for that long.
local function is_late()
  local before = string.match(ARGV[1], "^%d %d+ %d+ %d+ (%d+)$")
  return before and time_here() > tonumber(before)
end

local function parse(value)
  local row = { value = value }
  row.revision, row.order, row.state, row.priority, row.class, row.created, row.wake, row.prune, row.expires,
    row.awaited, row.group, row.nonce, row.queue, row.kind, row.ready, row.key = string.match(value,
    "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)\n")
  return row
end

local function line_of(row)
  return table.concat({ row.revision, row.order, row.state, row.priority, row.class, row.created, row.wake,
    row.prune, row.expires, row.awaited, row.group, row.nonce, row.queue, row.kind, row.ready, row.key }, " ")
end
