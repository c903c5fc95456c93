-- The queues of a call, and the fronts of their lanes. Only claims need it.
--
-- In a queue without keys and ageing the first of each lane are kept in a heap for the length of a claim, so that a task costs
-- the same however many types there are.

-- Tasks of a lane that are read at once: a few at first, since most claims want few.
local CHUNK_FIRST, CHUNK_MAX = 4, 64

-- What is known of a queue in this call.
local lines = {}
local function line(queue)
  local known = lines[queue]
  if not known then
    local gate = gate_of("0/" .. queue)
    known = {
      name = queue, gate = gate, paused = call("HGET", base .. "queue/" .. queue, "paused") == "1",
      every = gate and gate.ageing, fair = call("EXISTS", base .. "rounds/" .. queue) == 1,
    }
    lines[queue] = known
  end
  return known
end

-- The fronts of the lanes that were looked at: what was taken of them and is still there, and the levels whose heads are to be shown
-- anew.
local fronts = {}

-- Those that were taken leave the line, before anybody looks at it again.
local function take_out(lane)
  call_for_all("ZREM", lane.key, lane.taken, 1)
  lane.taken = {}
end

local function lane_of(queue, kind)
  local place = queue .. "/" .. kind
  local lane = fronts[place]
  if not lane then
    lane = { queue = queue, kind = kind, key = base .. "ready/" .. place, next = 1, entries = {}, chunk = CHUNK_FIRST,
      taken = {}, stale = {}, runs = {}, many = 0, classes = {}, priorities = {} }
    fronts[place] = lane
  end
  return lane
end

local function front(queue, kind)
  local lane = lane_of(queue, kind)
  if lane.next > #lane.entries and not lane.dry then
    looks = looks + 1
    take_out(lane)
    lane.entries = call("ZRANGE", lane.key, 0, lane.chunk - 1, "WITHSCORES")
    lane.next = 1
    lane.dry = #lane.entries < 2 * lane.chunk
    lane.chunk = math.min(4 * lane.chunk, CHUNK_MAX)
  end
  return lane.next <= #lane.entries and lane or nil
end

local function head(lane)
  return tonumber(lane.entries[lane.next + 1])
end

local function sink(heap, i)
  while true do
    local child = 2 * i
    if child < #heap and heap[child + 1].score < heap[child].score then
      child = child + 1
    end
    if child > #heap or heap[i].score <= heap[child].score then
      return
    end
    heap[i], heap[child] = heap[child], heap[i]
    i = child
  end
end

local function push(heap, lane)
  local i = #heap + 1
  heap[i] = { lane = lane, score = head(lane) }
  while i > 1 and heap[i].score < heap[math.floor(i / 2)].score do
    local parent = math.floor(i / 2)
    heap[i], heap[parent] = heap[parent], heap[i]
    i = parent
  end
end

-- The first lane of a heap has another head, or none.
local function renew(heap)
  local lane = front(heap[1].lane.queue, heap[1].lane.kind)
  if lane then
    heap[1].score = head(lane)
  else
    heap[1] = heap[#heap]
    heap[#heap] = nil
  end
  if #heap > 1 then
    sink(heap, 1)
  end
end

-- Where a claim may be served from in a queue.
local function source_of(queue, types)
  local source = { line = line(queue), types = types, heap = {}, opened = {}, ahead = {}, next = 1, from = "-inf" }
  if types and not source.line.fair and not source.line.every then
    for _, kind in ipairs(types) do
      local lane = front(queue, kind)
      if lane then
        push(source.heap, lane)
      end
    end
  end
  return source
end

-- Opens the lanes that may have the first task. The order of lanes may name a head that is taken by now, never a later one.
local function open_lanes(source)
  local queue = source.line.name
  while true do
    if source.next > #source.ahead and not source.dry then
      looks = looks + 1
      source.ahead = call("ZRANGEBYSCORE", base .. "lanes/" .. queue, source.from, "+inf", "WITHSCORES", "LIMIT", 0, 4)
      source.next, source.dry = 1, #source.ahead < 8
    end
    local score = tonumber(source.ahead[source.next + 1])
    if not score or (source.heap[1] and source.heap[1].score < score) then
      return
    end
    local kind = string.sub(source.ahead[source.next], 5)
    source.from, source.next = "(" .. source.ahead[source.next + 1], source.next + 2
    if not source.opened[kind] then
      source.opened[kind] = true
      local lane = front(queue, kind)
      if lane then
        push(source.heap, lane)
      end
    end
  end
end

-- The next task of a queue without keys and ageing.
local function best_plain(source)
  while true do
    if not source.types then
      open_lanes(source)
    end
    local first = source.heap[1]
    if not first then
      return nil
    end
    local lane = first.lane
    if not closed(gate_of("1/" .. lane.kind)) then
      return { kind = lane.kind, name = lane.entries[lane.next], lane = lane }
    end
    if is_enough() then
      return nil
    end
    shut_lane(lane.queue, lane.kind, "lanes", string.format("%03d %s", (split(first.score)), lane.kind))
    source.heap[1] = source.heap[#source.heap]
    source.heap[#source.heap] = nil
    if #source.heap > 1 then
      sink(source.heap, 1)
    end
  end
end
