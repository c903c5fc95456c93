-- Which task of a queue is next: core's `flow::pick`, `flow::rounds` and `flow::ageing`, next to the data. Only claims need it.
--
-- A gate that is met closed takes what it closes out of the orders (see gates.lua), so nothing is met twice before it opens.

-- Looks at Redis of this call: one that took many ends early.
local looks = 0
-- What this call met shut, or left behind by a call that broke off, and took out of the orders. One that met many leaves the rest to the
-- next call: `unsure` says that there may be more behind it.
local met, unsure = 0, false

local function is_enough()
  unsure = unsure or met >= SHUT_MET_MAX
  return met >= SHUT_MET_MAX
end

-- The lane of a closed type is taken out of the order of its queue.
local function shut_lane(queue, kind, set, member)
  met = met + 1
  call("ZREM", base .. set .. "/" .. queue, member)
  call("SADD", base .. "shut/1/" .. kind, queue)
end

-- Whether a type that a claim names lets nothing start; what waits there is noted.
local function is_shut(queue, kind)
  if not closed(gate_of("1/" .. kind)) then
    return false
  end
  local lane = queue .. "/" .. kind
  if call("EXISTS", base .. "ready/" .. lane, base .. "ranks/" .. lane) > 0 then
    call("SADD", base .. "shut/1/" .. kind, queue)
  end
  return true
end

local function plain_of(queue, kind, found)
  local level, order = split(found[2])
  return { kind = kind, level = level, order = order, name = found[1], score = tonumber(found[2]) }
end

-- The first task without a key at this level or behind it.
local function first_plain(queue, types, from)
  if types then
    local first
    for _, kind in ipairs(types) do
      looks = looks + 1
      if not is_shut(queue, kind) then
        local found = call("ZRANGEBYSCORE", base .. "ready/" .. queue .. "/" .. kind, text(from * ORDERS), "+inf",
          "WITHSCORES", "LIMIT", 0, 1)
        if found[1] and (not first or tonumber(found[2]) < first.score) then
          first = plain_of(queue, kind, found)
        end
      end
    end
    return first
  end
  while true do
    looks = looks + 1
    local head = call("ZRANGEBYSCORE", base .. "lanes/" .. queue, text(from * ORDERS), "+inf", "WITHSCORES", "LIMIT", 0, 1)
    if not head[1] then
      return nil
    end
    local level, kind = string.match(head[1], "^(%d+) (%S+)$")
    if closed(gate_of("1/" .. kind)) then
      if is_enough() then
        return nil
      end
      shut_lane(queue, kind, "lanes", head[1])
    else
      local found = first_at(base .. "ready/" .. queue .. "/" .. kind, tonumber(level))
      if found[2] == head[2] then
        return plain_of(queue, kind, found)
      end
      -- A call that broke off left it behind.
      show_head(queue, kind, tonumber(level))
    end
  end
end

-- The first share of a lane at this level or behind it that can be served.
local function first_share(queue, kind, from, till)
  local lane = queue .. "/" .. kind
  while true do
    looks = looks + 1
    local rank = call("ZRANGEBYLEX", base .. "ranks/" .. lane, string.format("[%03d", from), till, "LIMIT", 0, 1)[1]
    if not rank then
      return nil
    end
    local level, key = tonumber(string.sub(rank, 1, 3)), string.sub(rank, RANK + 1)
    if not closed(gate_of("2/" .. key)) then
      return {
        kind = kind, key = key, level = level, pass = tonumber(string.sub(rank, 4, 19)),
        order = tonumber(string.sub(rank, 20, RANK)), rank = string.sub(rank, 1, RANK),
      }
    end
    if is_enough() then
      return nil
    end
    met = met + 1
    local before = rank_at(lane, level)
    call("ZREM", base .. "ranks/" .. lane, rank)
    call("SADD", base .. "shut/2/" .. key, lane)
    show_top(queue, kind, level, before)
  end
end

-- The first share of a queue at this level or behind it.
local function first_keyed(queue, types, from)
  if types then
    local first
    for _, kind in ipairs(types) do
      if not closed(gate_of("1/" .. kind)) then
        local found = first_share(queue, kind, from, "+")
        if found and (not first or found.rank < first.rank) then
          first = found
        end
      end
    end
    return first
  end
  while true do
    looks = looks + 1
    local top = call("ZRANGEBYLEX", base .. "tops/" .. queue, string.format("[%03d", from), "+", "LIMIT", 0, 1)[1]
    if not top then
      return nil
    end
    local level, kind = tonumber(string.sub(top, 1, 3)), string.sub(top, RANK + 1)
    if closed(gate_of("1/" .. kind)) then
      if is_enough() then
        return nil
      end
      shut_lane(queue, kind, "tops", top)
    else
      local found = first_share(queue, kind, level, string.format("(%03d", level + 1))
      if found and found.rank .. kind == top then
        return found
      end
      if unsure then
        return nil
      end
      -- Whom this stood for cannot be served, or a call that broke off left it behind.
      call("ZREM", base .. "tops/" .. queue, top)
      if found then
        call("ZADD", base .. "tops/" .. queue, 0, found.rank .. kind)
      end
    end
  end
end

-- What the tasks without a key have paid, as a claim sees it whose first one is `next`.
local function plain_pass(queue, types, next)
  local function paid(home)
    local round = round_at(home, next.level)
    return round and math.max(round.plain, round.level)
  end
  local own = paid(queue .. "/" .. next.kind)
  if not own then
    for _, kind in ipairs(types or {}) do
      local other = paid(queue .. "/" .. kind)
      own = other and math.min(own or other, other) or own
    end
  end
  return math.max(own or 0, paid(queue) or 0)
end

-- Which of the first without a key and the first with one is next.
local function choose(queue, types, plain, keyed)
  if not plain or not keyed then
    return plain or keyed
  end
  if plain.level ~= keyed.level then
    return plain.level < keyed.level and plain or keyed
  end
  local pass = plain_pass(queue, types, plain)
  if pass < keyed.pass or (pass == keyed.pass and plain.order < keyed.order) then
    return plain
  end
  return keyed
end

local function named(queue, next)
  if next and not next.name then
    next.name = first_at(base .. "ready/" .. queue .. "/" .. next.kind .. "/" .. next.key, next.level)[1]
  end
  return next
end

-- The next task of a queue that ages: of those that are next at each level the one that is ahead.
local function best_aged(queue, types, every)
  local best, least
  local from = 0
  while true do
    local plain, keyed = first_plain(queue, types, from), first_keyed(queue, types, from)
    if not plain and not keyed then
      return best
    end
    local level = math.min(plain and plain.level or 256, keyed and keyed.level or 256)
    plain = plain and plain.level == level and plain or nil
    keyed = keyed and keyed.level == level and keyed or nil
    local next = named(queue, choose(queue, types, plain, keyed))
    local ahead = level * every + tonumber(parse(call("HGET", base .. "tasks", next.name)).ready)
    if not best or ahead < least then
      best, least = next, ahead
    end
    from = level + 1
  end
end

-- The next task of a queue in which keys take turns or that ages.
local function best_of(queue, types, every)
  if every then
    return best_aged(queue, types, every)
  end
  local plain, keyed = first_plain(queue, types, 0), first_keyed(queue, types, 0)
  return named(queue, choose(queue, types, plain, keyed))
end

-- A task was chosen: its party pays, and the rounds that the claim looked at have come as far.
local function pay(queue, types, next)
  local round = round_at(queue, next.level)
  if not round then
    return
  end
  local reached = round.front
  local rounds = {}
  if types then
    reached = round.level
    for _, kind in ipairs(types) do
      rounds[kind] = round_at(queue .. "/" .. kind, next.level)
      reached = math.max(reached, rounds[kind] and rounds[kind].level or 0)
    end
  end
  local start = math.max(next.key and next.pass or plain_pass(queue, types, next), reached)
  round.front = math.max(round.front, start)
  if not types then
    round.level = math.max(round.level, start)
    round.plain = next.key and round.plain or math.max(round.plain, start + ROUND)
  end
  keep_round(queue, next.level, round)
  for kind, own in pairs(rounds) do
    own.level = math.max(own.level, start)
    own.plain = next.key and own.plain or math.max(own.plain, start + ROUND)
    keep_round(queue .. "/" .. kind, next.level, own)
  end
  if not next.key then
    return
  end
  -- The key pays in every lane that the claim could have served it from.
  local wanted = {}
  for _, kind in ipairs(types or {}) do
    wanted[kind] = true
  end
  for _, lane in ipairs(call("SMEMBERS", base .. "shares/" .. next.key)) do
    local of, kind = string.match(lane, "^(.*)/(.*)$")
    if of == queue and (not types or wanted[kind]) then
      charge_share(lane, next.key, next.level, start + cost_of(next.key))
    end
  end
end
