-- What counts towards queues, types and keys, and the limits that count it. The rules are those of core's `flow::gate` and
-- `flow::window`, number by number: a claim is decided here, next to the data.
--
-- A limit is known as <scope>/<name>, with the scopes 0 (queue), 1 (type) and 2 (key). In `limits` it is a line: tasks that
-- may run at once, starts and length of the window of its rate, weight, tasks that may wait, "1" if paused, milliseconds of
-- waiting that are worth a step of priority; a dash stands for none. Beside it in `windows`: until when the rate is used up, when
-- the last entry of the window began, and the entries (when, and how many). `alarms` has those without a token by the time
-- of their next one. `meta` has how many limits there are, and how many of them bound what waits: mostly none, and then
-- nobody looks further.
--
-- Nothing is moved when a gate closes. A claim that meets a lane whose gate is closed takes it out of the order that claims
-- look at and notes it in shut/<limit>; when the gate opens, what is noted there goes back, and those who wait are told.
-- A call puts back a bounded number of lanes (PLACES_MAX). What is left stays noted, the limit stands in `opening`, `meta` says that there
-- is such a limit, and claims and whoever leads go on.

-- By how much the counters of this call change, by hash and field: they are written once, at its end.
local moves = {}

local function move(hash, field, by)
  local fields = moves[hash]
  if not fields then
    fields = {}
    moves[hash] = fields
  end
  fields[field] = (fields[field] or 0) + by
end

local function moved(hash, field)
  local fields = moves[hash]
  return fields and fields[field] or 0
end

local WAITING = { ["0"] = true, ["1"] = true, ["2"] = true, ["4"] = true }

local function count(row, by)
  local counts = "queue/" .. row.queue
  move(counts, row.state, by)
  if row.state == PENDING then
    move(counts, "class" .. row.class, by)
  end
  if row.group ~= "-" then
    move("workflow/" .. row.group, row.state, by)
  end
  local load = row.state == RUNNING and "running" or WAITING[row.state] and "waiting"
  if load then
    move(load, "1/" .. row.kind, by)
    if row.key ~= NO_KEY then
      move(load, "2/" .. row.key, by)
    end
  end
end

-- Tasks that wait in a queue, those of this call included.
local function waiting_in(queue)
  local sum = 0
  for i, number in ipairs(call("HMGET", base .. "queue/" .. queue, "0", "1", "2", "4")) do
    local state = i == 4 and "4" or tostring(i - 1)
    sum = sum + tonumber(number or 0) + moved("queue/" .. queue, state)
  end
  return sum
end

-- Tasks that wait under a limit.
local function waiting_under(limit)
  if string.sub(limit, 1, 1) == "0" then
    return waiting_in(string.sub(limit, 3))
  end
  return tonumber(call("HGET", base .. "waiting", limit) or 0) + moved("waiting", limit)
end

-- Whether there are limits at all, and whether shares of some queue have yet to get or lose turns (lanes.lua).
local limited, turning
local function is_limited()
  if limited == nil then
    local numbers = call("HMGET", KEYS[1], "limits", "turning")
    limited, turning = tonumber(numbers[1] or 0) > 0, numbers[2] and true
  end
  return limited
end

local function read_limit(limit, line)
  local max, rate, per, weight, depth, paused, ageing =
    string.match(line, "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$")
  return {
    limit = limit, max = tonumber(max), rate = tonumber(rate), per = tonumber(per), weight = tonumber(weight),
    depth = tonumber(depth), paused = paused == "1", ageing = tonumber(ageing), entries = {}, total = 0, began = 0,
  }
end

-- Takes what a window remembers from its text.
local function read_window(gate, window)
  local drained, began, entries = string.match(window, "^(%S+) (%S+)(.*)$")
  gate.drained, gate.began = tonumber(drained), tonumber(began)
  for number in string.gmatch(entries, "%S+") do
    gate.entries[#gate.entries + 1] = tonumber(number)
  end
  for i = 2, #gate.entries, 2 do
    gate.total = gate.total + gate.entries[i]
  end
end

local gates = {}
-- The gate of a limit, or nothing if there is no such limit.
local function gate_of(limit)
  local gate = gates[limit]
  if gate == nil then
    local line = is_limited() and call("HGET", base .. "limits", limit)
    gate = line and read_limit(limit, line) or false
    if gate then
      local window = gate.rate and call("HGET", base .. "windows", limit)
      if window then
        read_window(gate, window)
      end
      if string.sub(limit, 1, 1) == "0" then
        gate.hash, gate.field = "queue/" .. string.sub(limit, 3), RUNNING
      else
        gate.hash, gate.field = "running", limit
      end
      gate.stored = tonumber(call("HGET", base .. gate.hash, gate.field) or 0)
    end
    gates[limit] = gate
  end
  return gate
end

local function closed(gate)
  if not gate then
    return false
  end
  return gate.paused or gate.drained ~= nil
    or (gate.max ~= nil and gate.stored + moved(gate.hash, gate.field) >= gate.max)
end

-- Forgets the starts that are over. A clock that was set back takes the entries back with it.
local function settle_window(gate, now)
  local entries = gate.entries
  local latest = entries[#entries - 1]
  if latest and now < latest then
    local back = latest - now
    gate.began = math.max(0, gate.began - back)
    for i = 1, #entries, 2 do
      entries[i] = math.max(0, entries[i] - back)
    end
  end
  local left = {}
  for i = 1, #entries, 2 do
    if #left > 0 or entries[i] + gate.per > now then
      left[#left + 1] = entries[i]
      left[#left + 1] = entries[i + 1]
    else
      gate.total = gate.total - entries[i + 1]
    end
  end
  gate.entries = left
end

-- Looks at the clock: whether the rate is used up, and until when.
local function tick(gate, now)
  gate.drained = nil
  if not gate.rate then
    return
  end
  settle_window(gate, now)
  local left = gate.total
  if left < gate.rate then
    return
  end
  for i = 1, #gate.entries, 2 do
    left = left - gate.entries[i + 1]
    if left < gate.rate then
      gate.drained = gate.entries[i] + gate.per
      return
    end
  end
  gate.drained = now + gate.per
end

-- A task starts: it takes a token.
local function take_token(gate, now)
  if not gate or not gate.rate then
    return
  end
  settle_window(gate, now)
  gate.total = gate.total + 1
  local entries = gate.entries
  if #entries > 0 and now < gate.began + math.floor(gate.per / 100) then
    entries[#entries - 1], entries[#entries] = now, entries[#entries] + 1
  else
    entries[#entries + 1] = now
    entries[#entries + 1] = 1
    gate.began = now
  end
  tick(gate, now)
  gate.changed = true
end

local function keep_window(gate)
  gate.changed = false
  if gate.rate then
    local words = { gate.drained and text(gate.drained) or "-", text(gate.began) }
    for _, number in ipairs(gate.entries) do
      words[#words + 1] = text(number)
    end
    call("HSET", base .. "windows", gate.limit, table.concat(words, " "))
  else
    call("HDEL", base .. "windows", gate.limit)
  end
  if gate.drained then
    call("ZADD", base .. "alarms", text(gate.drained), gate.limit)
  else
    call("ZREM", base .. "alarms", gate.limit)
  end
end

-- These are in lanes.lua, which needs what is above.
local show_lane, show_share

-- Where something can be served again, for those who wait.
local openings = {}
-- How many more places this call may put back.
local places_left = PLACES_MAX

-- Whoever leads has something to go on with, if nobody else does before.
local function tell_leader()
  call("PUBLISH", base .. "hints", "- - - +g")
end

-- A limit is open: some of what it kept away goes back into the orders. Returns whether that is all.
local function put_back(limit)
  local scope, name = string.sub(limit, 1, 1), string.sub(limit, 3)
  local shut = base .. "shut/" .. limit
  local places = places_left > 0 and call("SPOP", shut, places_left) or {}
  places_left = places_left - #places
  for _, place in ipairs(places) do
    if scope == "1" then
      show_lane(place, name)
      place = place .. "/" .. name
    else
      show_share(place, name)
    end
    openings[#openings + 1] = place
  end
  return call("EXISTS", shut) == 0
end

-- A gate opened.
local function open_up(gate)
  if string.sub(gate.limit, 1, 1) == "0" then
    openings[#openings + 1] = string.sub(gate.limit, 3) .. "/*"
  elseif not put_back(gate.limit) then
    call("SADD", base .. "opening", gate.limit)
    call("HSET", KEYS[1], "opening", 1)
    tell_leader()
  end
end

-- Goes on with gates that opened and had more to put back than one call may. Returns whether there is more.
local function go_on_opening()
  local opening = base .. "opening"
  for _, limit in ipairs(call("SRANDMEMBER", opening, PLACES_MAX)) do
    -- Of one that closed again meanwhile the rest stays noted until it opens.
    if closed(gate_of(limit)) or put_back(limit) then
      call("SREM", opening, limit)
    end
    if places_left <= 0 then
      break
    end
  end
  if call("EXISTS", opening) == 1 then
    return true
  end
  call("HDEL", KEYS[1], "opening")
  return false
end

-- The clocks of processes differ a little, and to a gate time must not go back each time that another one asks: the latest that any
-- of them told is the time. Only a clock that is behind by more than this was set back.
local SET_BACK_MS = 60000
-- Returns the time; and behind which limit those follow that have yet to be told of a clock that was set back, if there are any.
local function gate_time(now)
  local known = call("HMGET", KEYS[1], "clock", "rewound")
  local before = tonumber(known[1] or 0)
  if now < before and before - now <= SET_BACK_MS then
    return before, known[2]
  end
  return now, now < before and "" or known[2]
end

-- Opens the gates that have a token again. Only the time of a claim and of whoever leads moves this clock.
-- Returns the time of the gates, and whether there may be more to open.
local OPENED_MAX = 1000
local function advance(wall)
  if not is_limited() then
    return wall, false
  end
  local now, behind = gate_time(wall)
  call("HSET", KEYS[1], "clock", text(now))
  local function look_at(limit)
    local gate = gate_of(limit)
    local was = closed(gate)
    tick(gate, now)
    keep_window(gate)
    if was and not closed(gate) then
      open_up(gate)
    end
  end
  local due = call("ZRANGEBYSCORE", base .. "alarms", "-inf", text(now), "LIMIT", 0, OPENED_MAX)
  for _, limit in ipairs(due) do
    look_at(limit)
  end
  local more = #due >= OPENED_MAX
  if behind then
    -- No alarm may wait for the old time to come again. They get new times, so they are looked at by name.
    local from = behind == "" and "-" or "(" .. behind
    local some = call("ZRANGEBYLEX", base .. "limit_order", from, "+", "LIMIT", 0, OPENED_MAX)
    for _, limit in ipairs(some) do
      if call("ZSCORE", base .. "alarms", limit) then
        look_at(limit)
      end
    end
    if #some < OPENED_MAX then
      call("HDEL", KEYS[1], "rewound")
    else
      call("HSET", KEYS[1], "rewound", some[#some])
      more = true
    end
  end
  return now, more
end

-- Fewer run: the gate that this opens, if it opens one.
local function free_place(limit, before, after)
  local gate = is_limited() and gate_of(limit)
  if gate and gate.max and before >= gate.max and after < gate.max and not gate.paused and not gate.drained then
    open_up(gate)
  end
end

local LANES_NAMED_MAX = 100

-- Everybody hears of it, this process too: only Redis knows that something opened.
local function tell_openings()
  if #openings > LANES_NAMED_MAX then
    openings = { "*/*" }
  end
  if #openings > 0 then
    call("PUBLISH", base .. "hints", "- - - + " .. table.concat(openings, " "))
    openings = {}
  end
end

-- Writes the counters down. Every script that moves a task ends with it.
local function settle_counts()
  local written = moves
  moves = {}
  for hash, fields in pairs(written) do
    local loads = hash == "waiting" or hash == "running"
    local queue = string.match(hash, "^queue/(.*)$")
    for field, by in pairs(fields) do
      if by ~= 0 then
        local after = call("HINCRBY", base .. hash, field, by)
        if loads and after == 0 then
          call("HDEL", base .. hash, field)
        end
        if by < 0 and hash == "running" then
          free_place(field, after - by, after)
        elseif by < 0 and queue and field == RUNNING then
          free_place("0/" .. queue, after - by, after)
        end
      end
    end
  end
  tell_openings()
end
