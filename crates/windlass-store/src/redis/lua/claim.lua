-- Leases the next ready tasks to some claims, in the order in which they came.
--
-- ARGV[4]  now, on the wall.
-- ARGV[5]  the bytes after which a claim has enough.
-- ARGV[6]  how many expired tasks may be passed over.
-- ARGV[7]  how many claims. For each: worker, length of the lease, "weighted" or "strict", most tasks, draws (16 hex digits
--          each), number of types or "-1" for all, the types, number of queues, and each with its weight.
-- Returns the rows of tasks that were passed over because they expired, which Rust cancels; for each claim the rows
-- that it got, with bodies; and for each "1" if it got nothing and there may be something behind what the call met shut.
--
-- The choice among queues is that of core's `choice::pick`, draw by draw: next to the data there is no other language. In a
-- queue without keys and ageing the fronts of the lanes are kept in a heap for the length of a claim, so that a task costs
-- the same however many types there are; in the others choice.lua looks at the orders for each task.
-- An expired task leaves its line here, and its state when Rust has cancelled it, or whoever leads.
-- What a claim got is remembered for a while under the number of the call, so that a repeated call gets the same.

go_on_when_full()
local now, enough, expired_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
-- A claim that has something ends when the call has looked this often: about ten milliseconds of Redis. One that has nothing goes
-- on past what it finds shut, each of which it takes out of the order for those who come after it, up to a bound (choice.lua).
local LOOKS_MAX = 10000

if again then
  local before = call("GET", memory)
  if before then
    local answers = {}
    for i, names in ipairs(cjson.decode(before)) do
      answers[i] = {}
      for _, name in ipairs(names) do
        -- One that was taken from this claim meanwhile has the number of another call.
        local found = find(name)
        local row = found and found.nonce == nonce and show(name, true)
        if row then
          answers[i][#answers[i] + 1] = row
        end
      end
    end
    return { {}, answers, {} }
  end
end

local counters = call("HMGET", KEYS[1], "claims", "beat", "limits", "turning", "opening")
local claims, beat = tonumber(counters[1] or 0), tonumber(counters[2] or 0)
limited, turning = tonumber(counters[3] or 0) > 0, counters[4] and true
local gates_at = advance(now)
if counters[5] then
  go_on_opening()
end
local passed = {}
local at = 8
-- How often a start closed a gate.
local closings = 0

local function best(source)
  local known = source.line
  if known.paused or closed(known.gate) then
    return nil
  end
  -- What was found before is still the best if no gate closed since: one that closes can bring forward what stood behind the
  -- task that it blocks.
  if source.best and source.seen == closings then
    return source.best
  end
  local before = unsure
  unsure = false
  if known.fair or known.every then
    source.best = best_of(known.name, source.types, known.every)
  else
    source.best = best_plain(source)
  end
  if unsure then
    -- What was found before the search ended early need not be the best.
    source.best = nil
  end
  source.seen, unsure = closings, unsure or before
  return source.best
end

-- The first of a lane is taken: the next one is at its front.
local function pass(source, lane)
  source.best = nil
  lane.next = lane.next + 2
  renew(source.heap)
end

-- The chosen task leaves its line.
local function take(source, next, row)
  source.best = nil
  if not next.lane then
    return leave_line(next.name, row)
  end
  next.lane.taken[#next.lane.taken + 1] = next.name
  next.lane.stale[level_of(row)] = true
  pass(source, next.lane)
end

-- What the usual tasks that were leased have to be written with: words for ZADD and HSET, and how many. It is one table because Lua has
-- room for 200 locals.
local usual = { leases = {}, held = {}, many = 0, revisions = {} }

-- What `held` says of a task that is claimed: the next revision, the next number, and what the claim says of all of its tasks.
local function hold(revision, secret, terms)
  local revisions = usual.revisions
  if not revisions[revision] then
    revisions[revision] = text(tonumber(revision) + 1) .. " "
  end
  claims, beat = claims + 1, beat + 1
  local beaten = text(beat)
  return revisions[revision] .. text(claims) .. " " .. secret .. terms.claim .. beaten .. terms.worker, beaten
end

-- Returns the row as `show` would, without reading it again.
local function lease(name, row, body, secret, terms)
  local held, beaten = hold(row.revision, secret, terms)
  leave(name, row, true)
  row.state, row.wake = RUNNING, "-"
  enter(name, row)
  stand("leases", name, beaten)
  call("HSET", base .. "held", name, held)
  return { row.value, held, false, body, name }
end

-- The same for a task of a lane without a time and a workflow, where there are no limits. Nearly all are like that, so for these it is
-- done with as little as possible, and orders and counters are written at the end. Returns nothing for another task.
local function lease_plain(lane, name, value, body, terms, draw)
  local revision, priority, class = string.match(value, "^(%d+) %d+ 2 (%d+) (%d) %d+ %- %- %- [01] %- ")
  if not revision then
    return nil
  end
  local held, beaten = hold(revision, draw(), terms)
  local many = #lane.leased + 1
  lane.taken[#lane.taken + 1], lane.leased[many] = name, name
  lane.classes[class] = (lane.classes[class] or 0) + 1
  lane.priorities[priority] = true
  local leases, words, at = usual.leases, usual.held, usual.many + 1
  leases[at], leases[at + 1], words[at], words[at + 1] = beaten, name, name, held
  usual.many = at + 1
  return { value, held, false, body, name }
end

-- Leases the first tasks of a lane as long as they are such, to a claim that no other lane may serve. Returns how many bytes they have.
-- A few are read at first and then as many as are likely to fit, since bodies may be large.
local function lease_run(lane, rows, most, terms, draw)
  take_out(lane)
  local bytes, many, next = 0, 0, 8
  while many < most and bytes < enough do
    local names = call("ZRANGE", lane.key, many, math.min(many + next, most) - 1)
    if #names == 0 then
      break
    end
    local values, bodies = call("HMGET", base .. "tasks", unpack(names)), call("HMGET", base .. "bodies", unpack(names))
    for i, name in ipairs(names) do
      local shown = bytes < enough and lease_plain(lane, name, values[i], bodies[i], terms, draw)
      if not shown then
        most = 0
        break
      end
      bytes, many = bytes + #values[i] + #bodies[i], many + 1
      rows[many] = shown
    end
    next = math.min(500, math.ceil((enough - bytes) * many / (bytes + 1)))
  end
  -- They are the first of the line, which who comes next reads anew.
  if many > 0 then
    call("ZREMRANGEBYRANK", lane.key, 0, many - 1)
  end
  lane.taken = {}
  lane.entries, lane.next, lane.dry = {}, 1, false
  looks = looks + 1 + #rows / 8
  return bytes
end

-- Orders and counters of what `lease_plain` leased.
local function settle_plain()
  for _, lane in pairs(fronts) do
    local many = #lane.leased
    if many > 0 then
      local runs = numbers.runs_of(lane.leased)
      numbers.take("state/" .. PENDING, lane.leased, runs)
      numbers.take("age/" .. lane.queue, lane.leased, runs)
      numbers.put("state/" .. RUNNING, lane.leased, runs)
      local counts = "queue/" .. lane.queue
      move(counts, PENDING, -many)
      move(counts, RUNNING, many)
      for class, number in pairs(lane.classes) do
        move(counts, "class" .. class, -number)
      end
      move("waiting", "1/" .. lane.kind, -many)
      move("running", "1/" .. lane.kind, many)
    end
  end
  call_for_all("HSET", base .. "held", usual.held, 2)
  call_for_all("ZADD", base .. "leases", usual.leases, 2)
end

local function words(number)
  local list, seen = {}, {}
  for _ = 1, number do
    if not seen[ARGV[at]] then
      list[#list + 1] = ARGV[at]
      seen[ARGV[at]] = true
    end
    at = at + 1
  end
  return list
end

local function serve()
  local worker, lease_ms, mode, most, draws = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  local many = tonumber(ARGV[at + 5])
  at = at + 6
  local types = many >= 0 and words(many) or nil
  local drawn = 0
  local function draw()
    drawn = drawn + 1
    return string.sub(draws, 16 * drawn - 15, 16 * drawn)
  end
  local terms = {
    claim = table.concat({ "", nonce, lease_ms, ARGV[4], lease_ms, text(now + tonumber(lease_ms)), "" }, " "),
    worker = " " .. worker,
  }

  local rows, bytes = {}, 0
  unsure = false
  local queues, sources, wanted = {}, {}, tonumber(ARGV[at])
  if wanted == 1 and types and #types == 1 and not limited and #passed < expired_max then
    local only = line(ARGV[at + 1])
    if not only.paused and not only.fair then
      bytes = lease_run(lane_of(only.name, types[1]), rows, most, terms, draw)
    end
  end
  for i = 1, #rows < most and wanted or 0 do
    local name = ARGV[at + 2 * i - 1]
    sources[name] = sources[name] or source_of(name, types)
    queues[i] = { source = sources[name], weight = math.max(1, tonumber(ARGV[at + 2 * i])) }
  end
  at = at + 1 + 2 * wanted

  local function pick()
    if #queues == 1 then
      return best(queues[1].source) and queues[1].source
    end
    local choices, total = {}, 0
    for _, queue in ipairs(queues) do
      if best(queue.source) then
        if mode == "strict" then
          return queue.source
        end
        choices[#choices + 1] = queue
        total = total + queue.weight
      end
    end
    if #choices < 2 then
      return choices[1] and choices[1].source
    end
    local number = draw()
    local high, low = tonumber(string.sub(number, 1, 8), 16), tonumber(string.sub(number, 9, 16), 16)
    local point = ((high % total) * (4294967296 % total) + low % total) % total
    for _, choice in ipairs(choices) do
      if point < choice.weight then
        return choice.source
      end
      point = point - choice.weight
    end
    return choices[1].source
  end

  while #rows < most and bytes < enough and #passed < expired_max and 16 * (drawn + 2) <= #draws
    and (#rows == 0 or looks < LOOKS_MAX) do
    local source = pick()
    if not source then
      break
    end
    local next = source.best
    local value, body = call("HGET", base .. "tasks", next.name), call("HGET", base .. "bodies", next.name)
    local shown = next.lane and not limited and lease_plain(next.lane, next.name, value, body, terms, draw)
    local row = not shown and parse(value)
    if shown then
      pass(source, next.lane)
      bytes = bytes + #value + #body
      rows[#rows + 1] = shown
    elseif row.expires ~= "-" and tonumber(row.expires) <= now then
      take(source, next, row)
      passed[#passed + 1] = next.name
    else
      local secret = draw()
      if source.line.fair then
        pay(row.queue, types, next)
      end
      local kind, key = gate_of("1/" .. row.kind), row.key ~= NO_KEY and gate_of("2/" .. row.key)
      take_token(source.line.gate, gates_at)
      take_token(kind, gates_at)
      take_token(key, gates_at)
      take(source, next, row)
      shown = lease(next.name, row, body, secret, terms)
      if closed(kind) or closed(key) then
        closings = closings + 1
      end
      bytes = bytes + #value + #body
      rows[#rows + 1] = shown
    end
    looks = looks + #queues / 8
  end
  return rows
end

local answers, names, blind, got = {}, {}, {}, false
for i = 1, tonumber(ARGV[7]) do
  answers[i] = serve()
  blind[i] = unsure and #answers[i] == 0 and "1" or "0"
  names[i] = {}
  for j, row in ipairs(answers[i]) do
    names[i][j] = row[#row]
    got = true
  end
end
for _, lane in pairs(fronts) do
  take_out(lane)
  for priority in pairs(lane.priorities) do
    lane.stale[255 - tonumber(priority)] = true
  end
  for level in pairs(lane.stale) do
    show_head(lane.queue, lane.kind, level)
  end
end
local nearest = limited and call("ZRANGE", base .. "alarms", 0, 0)[1]
for _, gate in pairs(gates) do
  if gate and gate.changed then
    keep_window(gate)
  end
end
if limited then
  local first = call("ZRANGE", base .. "alarms", 0, 0)[1]
  if first and first ~= nearest then
    call("PUBLISH", base .. "hints", "- - - +g")
  end
end
settle_plain()
settle()
if got then
  call("HSET", KEYS[1], "claims", text(claims), "beat", text(beat))
  call("SET", memory, cjson.encode(names), "PX", MEMORY_MS)
end
local expired = {}
for i, name in ipairs(passed) do
  expired[i] = show(name, false)
end
return { expired, answers, blind }
