-- Leases the next ready tasks to some claims, in the order in which they came.
--
-- ARGV[4]  now, on the wall.
-- ARGV[5]  the bytes after which the call has enough. A claim for which nothing is left is asked for again.
-- ARGV[6]  how many expired tasks may be passed over.
-- ARGV[7]  how many claims. For each: worker, length of the lease, "weighted" or "strict", most tasks, draws (16 hex digits
--          each), number of types or "-1" for all, the types, number of queues, and each with its weight.
-- Returns the rows of tasks that were passed over because they expired, which Rust cancels; for each claim what it got;
-- and for each "1" if it got nothing and there may be something behind what the call met shut, or the call had enough.
-- What a claim got is a list: the terms of runs (held.lua), each with how many tasks it is of; then names, lines with records, and
-- bodies of these tasks, as often as they were read; and behind them, as the last, the rows of others with bodies.
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
    for i, members in ipairs(cjson.decode(before)) do
      local rows = {}
      for _, member in ipairs(members) do
        local first, last = numbers.ends_of(member)
        for number = first, last do
          -- One that was taken from this claim meanwhile has the number of another call.
          local found = find(name_of(number))
          rows[#rows + 1] = found and found.nonce == nonce and show(name_of(number), true) or nil
        end
      end
      answers[i] = { {}, rows }
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

-- Usual tasks are those of a lane without a time and a workflow, where there are no limits. Nearly all are like that, so for these it is
-- done with as little as possible, and orders and counters are written at the end: these are the words for ZADD. It is one table
-- because Lua has room for 200 locals.
local usual = { held = {}, leases = {}, revisions = {} }
-- The line of one: revision, what stands behind its place, and in that priority and class.
usual.line = "^(%d+) %d+( 2 (%d+) (%d) %d+ %- %- %- [01] %- [^\n]*\n)"

-- What `held` says of tasks that are claimed: the next revision, the next numbers, and what the claim says of all of its tasks.
local function hold(revision, many, secret, terms)
  local revisions = usual.revisions
  if not revisions[revision] then
    revisions[revision] = text(tonumber(revision) + 1) .. " "
  end
  local number = claims + 1
  claims, beat = claims + many, beat + 1
  return revisions[revision] .. text(number) .. " " .. secret .. terms.claim .. text(beat) .. terms.worker
end

-- Returns the row as `show` would, without reading it again.
local function lease(name, row, body, secret, terms)
  local held = hold(row.revision, 1, secret, terms)
  leave(name, row, true)
  row.state, row.wake = RUNNING, "-"
  enter(name, row)
  holds.set(name, held)
  return { row.value, held, false, body, name }
end

-- Tasks of a lane whose numbers follow each other are leased: what is to be written of them.
function usual.note(lane, first, last, held)
  local words, leases, runs = usual.held, usual.leases, lane.runs
  words[#words + 1], leases[#leases + 1] = first, text(beat)
  words[#words + 1], leases[#leases + 1] = holds.member_of(first, last, held), first
  runs[#runs + 1] = first
  runs[#runs + 1] = last
  local many = tonumber(last) - tonumber(first) + 1
  lane.many = lane.many + many
  return many
end

function usual.count(lane, priority, class, many)
  lane.classes[class] = (lane.classes[class] or 0) + many
  lane.priorities[priority] = true
end

-- Leases a usual task. Returns its row, or nothing for another task.
function usual.lease(lane, name, value, body, terms, draw)
  local revision, _, priority, class = string.match(value, usual.line)
  if not revision then
    return nil
  end
  local held = hold(revision, 1, draw(), terms)
  lane.taken[#lane.taken + 1] = name
  usual.count(lane, priority, class, 1)
  usual.note(lane, name, name, held)
  return { value, held, false, body, name }
end

-- Leases the first tasks of a lane as long as they are usual, to a claim that no other lane may serve. Adds them to what it got, and
-- returns how many there are and their bytes. A few are read at first and then as many as are likely to fit, since bodies may be large;
-- and never many at once, since what comes may be larger than what came.
usual.READ_MAX = 32
function usual.lease_run(lane, got, most, terms, draw)
  take_out(lane)
  local bytes, many, next, secret = 0, 0, 8, draw()
  -- The run that grows: its first and last name, and revision. The line of the last task behind its place, which others mostly share.
  local first, last, before, running, rest, priority, class, alike = nil, nil, -1, nil, nil, nil, nil, 0
  local function close_run()
    if first then
      local held = hold(running, before - tonumber(first) + 1, secret, terms)
      local runs = got[1]
      runs[#runs + 1] = held
      runs[#runs + 1] = usual.note(lane, first, last, held)
      got.members[#got.members + 1] = first .. "+" .. last
    end
  end
  while many < most and bytes < enough do
    local names = call("ZRANGE", lane.key, many, math.min(many + next, most) - 1)
    if #names == 0 then
      break
    end
    local values, bodies = call("HMGET", base .. "tasks", unpack(names)), call("HMGET", base .. "bodies", unpack(names))
    for i, name in ipairs(names) do
      local value, revision = values[i], running
      -- A number is at most as long as a name, and a revision that is looked at so has one digit.
      local at = rest and string.find(value, rest, 3, true)
      if not at or at > 17 or #running > 1 or string.byte(value) ~= string.byte(running) or string.byte(value, 2) ~= 32 then
        if rest then
          usual.count(lane, priority, class, alike)
        end
        revision, rest, priority, class = string.match(value, usual.line)
        alike = 0
      end
      if not revision or bytes >= enough then
        names[i], values[i], bodies[i], most = nil, nil, nil, 0
        break
      end
      local number = tonumber(name)
      if number ~= before + 1 or revision ~= running then
        close_run()
        first, running = name, revision
      end
      last, before, alike = name, number, alike + 1
      bytes, many = bytes + #value + #bodies[i], many + 1
    end
    got[#got + 1], got[#got + 2], got[#got + 3] = names, values, bodies
    next = math.min(usual.READ_MAX, math.ceil((enough - bytes) * many / (bytes + 1)))
  end
  close_run()
  if alike > 0 then
    usual.count(lane, priority, class, alike)
  end
  -- They are the first of the line, which who comes next reads anew.
  if many > 0 then
    call("ZREMRANGEBYRANK", lane.key, 0, many - 1)
  end
  lane.entries, lane.next, lane.dry = {}, 1, false
  looks = looks + 1 + many / 8
  return many, bytes
end

-- Orders and counters of usual tasks that were leased.
function usual.settle()
  for _, lane in pairs(fronts) do
    local many = lane.many
    if many > 0 then
      numbers.take("state/" .. PENDING, lane.runs)
      numbers.take("age/" .. lane.queue, lane.runs)
      numbers.put("state/" .. RUNNING, lane.runs)
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
  call_for_all("ZADD", base .. "held", usual.held, 2)
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

  -- What the claim got (see above), the names or runs of that, and its rows.
  local got, rows, many, bytes = { {}, members = {} }, {}, 0, 0
  unsure = enough <= 0
  local queues, sources, wanted = {}, {}, tonumber(ARGV[at])
  if wanted == 1 and types and #types == 1 and not limited and #passed < expired_max then
    local only = line(ARGV[at + 1])
    if not only.paused and not only.fair then
      many, bytes = usual.lease_run(lane_of(only.name, types[1]), got, most, terms, draw)
    end
  end
  for i = 1, many < most and wanted or 0 do
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

  while many < most and bytes < enough and #passed < expired_max and 16 * (drawn + 2) <= #draws
    and (many == 0 or looks < LOOKS_MAX) do
    local source = pick()
    if not source then
      break
    end
    local next = source.best
    local value, body = call("HGET", base .. "tasks", next.name), call("HGET", base .. "bodies", next.name)
    local shown = next.lane and not limited and usual.lease(next.lane, next.name, value, body, terms, draw)
    local row = not shown and parse(value)
    if shown then
      pass(source, next.lane)
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
    end
    if shown then
      many, bytes = many + 1, bytes + #value + #body
      rows[#rows + 1], got.members[#got.members + 1] = shown, next.name
    end
    looks = looks + #queues / 8
  end
  got[#got + 1] = rows
  enough = enough - bytes
  return got, many
end

local answers, members, blind, some = {}, {}, {}, false
for i = 1, tonumber(ARGV[7]) do
  local got, many = serve()
  answers[i], members[i] = got, got.members
  blind[i] = unsure and many == 0 and "1" or "0"
  some = some or many > 0
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
usual.settle()
settle()
if some then
  call("HSET", KEYS[1], "claims", text(claims), "beat", text(beat))
  call("SET", memory, cjson.encode(members), "PX", MEMORY_MS)
end
local expired = {}
for i, name in ipairs(passed) do
  expired[i] = show(name, false)
end
return { expired, answers, blind }
