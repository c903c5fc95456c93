-- Leases the next ready tasks to some claims, in the order in which they came.
--
-- ARGV[4]  now, on the wall.
-- ARGV[5]  the bytes after which a claim has enough.
-- ARGV[6]  how many expired tasks may be passed over.
-- ARGV[7]  how many claims. For each: worker, length of the lease, "weighted" or "strict", most tasks, draws (16 hex digits
--          each), number of types or "-1" for all, the types, number of queues, and each with its weight.
-- Returns the rows of tasks that were passed over because they expired, which Rust cancels, and for each claim the rows
-- that it got, with bodies.
--
-- The choice among queues is that of core's `choice::pick`, draw by draw: next to the data there is no other language.
-- What a claim got is remembered for a while under the number of the call, so that a repeated call gets the same.

go_on_when_full()
local now, enough, expired_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local memory = base .. "done/" .. nonce
local CHUNK = 50

if again then
  local before = call("GET", memory)
  if before then
    local answers = {}
    for i, names in ipairs(cjson.decode(before)) do
      answers[i] = {}
      for _, name in ipairs(names) do
        local row = show(name, true)
        if row then
          answers[i][#answers[i] + 1] = row
        end
      end
    end
    return { {}, answers }
  end
end

local numbers = call("HMGET", KEYS[1], "claims", "beat")
local claims, beat = tonumber(numbers[1] or 0), tonumber(numbers[2] or 0)
local passed = {}
local at = 8

-- The fronts of the lanes that were looked at. What was passed over stays in its order until Rust has cancelled it.
local fronts = {}
local function front(queue, kind)
  local key = base .. "ready/" .. queue .. "/" .. kind
  local lane = fronts[key]
  if not lane then
    lane = { key = key, skipped = 0, next = 1, entries = {} }
    fronts[key] = lane
  end
  if lane.next > #lane.entries and not lane.dry then
    lane.entries = call("ZRANGE", key, lane.skipped, lane.skipped + CHUNK - 1, "WITHSCORES")
    lane.next = 1
    lane.dry = #lane.entries < 2 * CHUNK
  end
  if lane.next > #lane.entries then
    return nil
  end
  return lane
end

-- The types of a queue that have ready tasks; a paused one gives out none.
local open = {}
local function types_of(queue)
  if not open[queue] then
    local paused = call("HGET", base .. "queue/" .. queue, "paused") == "1"
    open[queue] = { paused = paused, types = paused and {} or call("SMEMBERS", base .. "lanes/" .. queue) }
  end
  return open[queue]
end

local function best(queue, types)
  local known = types_of(queue)
  if known.paused then
    return nil
  end
  local first, score
  for _, kind in ipairs(types or known.types) do
    local lane = front(queue, kind)
    if lane then
      local own = tonumber(lane.entries[lane.next + 1])
      if not first or own < score then
        first, score = lane, own
      end
    end
  end
  return first
end

local function serve()
  local worker, lease_ms, mode, most, draws = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  local types
  local many = tonumber(ARGV[at + 5])
  at = at + 6
  if many >= 0 then
    types = {}
    for i = 1, many do
      types[i] = ARGV[at + i - 1]
    end
    at = at + many
  end
  local queues = {}
  for i = 1, tonumber(ARGV[at]) do
    queues[i] = { name = ARGV[at + 2 * i - 1], weight = math.max(1, tonumber(ARGV[at + 2 * i])) }
  end
  at = at + 1 + 2 * #queues

  local drawn = 0
  local function draw()
    drawn = drawn + 1
    return string.sub(draws, 16 * drawn - 15, 16 * drawn)
  end
  local function pick()
    local choices, total = {}, 0
    for _, queue in ipairs(queues) do
      local lane = best(queue.name, types)
      if lane then
        choices[#choices + 1] = { lane = lane, weight = queue.weight }
        total = total + queue.weight
        if mode == "strict" then
          return lane
        end
      end
    end
    if #choices < 2 then
      return choices[1] and choices[1].lane
    end
    local number = draw()
    local high, low = tonumber(string.sub(number, 1, 8), 16), tonumber(string.sub(number, 9, 16), 16)
    local point = ((high % total) * (4294967296 % total) + low % total) % total
    for _, choice in ipairs(choices) do
      if point < choice.weight then
        return choice.lane
      end
      point = point - choice.weight
    end
    return choices[1].lane
  end

  local rows, bytes = {}, 0
  while #rows < most and bytes < enough and #passed < expired_max and 16 * (drawn + 2) <= #draws do
    local lane = pick()
    if not lane then
      break
    end
    local name = lane.entries[lane.next]
    lane.next = lane.next + 2
    local row = find(name)
    if row.expires ~= "-" and tonumber(row.expires) <= now then
      lane.skipped = lane.skipped + 1
      passed[#passed + 1] = name
    else
      claims, beat = claims + 1, beat + 1
      local secret = draw()
      leave(name, row)
      row.revision, row.state, row.wake, row.nonce = text(tonumber(row.revision) + 1), RUNNING, "-", nonce
      enter(name, row)
      call("ZADD", base .. "leases", beat, name)
      local number = text(claims)
      call("HSET", base .. "t/" .. name, "i", line_of(row),
        "c", table.concat({ number, secret, lease_ms, ARGV[4], worker }, " "),
        "l", table.concat({ number, secret, lease_ms, lease_ms, text(now + tonumber(lease_ms)), text(beat), worker },
          " "))
      local shown = show(name, true)
      bytes = bytes + #shown[2] + #shown[6]
      rows[#rows + 1] = shown
    end
  end
  return rows
end

local answers, names, got = {}, {}, false
for i = 1, tonumber(ARGV[7]) do
  answers[i] = serve()
  names[i] = {}
  for j, row in ipairs(answers[i]) do
    names[i][j] = row[#row]
    got = true
  end
end
if got then
  call("HSET", KEYS[1], "claims", text(claims), "beat", text(beat))
  call("SET", memory, cjson.encode(names), "PX", 20000)
end
local expired = {}
for i, name in ipairs(passed) do
  expired[i] = show(name, false)
end
return { expired, answers }
