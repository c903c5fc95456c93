-- The lines of ready tasks, and what the choice among them is made from. The rules are those of core's `flow` (see its essay):
-- keys take turns in the rounds of their queue and type.
--
-- A level is a priority counted downwards. A lane is <queue>/<type>, a share <queue>/<type>/<key>.
--   ready/<lane>, ready/<share>   tasks by level and place in line
--   lanes/<queue>      for each level and type the first task without a key; "<level> <type>"
--   turns/<share>      by level: what the key has paid there, and the place in line of its first task. Of a queue that ages there is
--                      a turn at every level, else one at that of the first task alone
--   ranks/<lane>       the shares by level, what was paid, and place in line: one word, so that it sorts, and the key behind it
--   tops/<queue>       for each level and type the first of its ranks, with the type behind it
--   rounds/<queue>, rounds/<lane>   by level: shares that have a turn, how far the claims have come that look at all of this, how
--                      far any claim has come, what the tasks without a key have paid
--   shares/<key>, parties/<queue>   where a key has turns; who has turns in a queue
--   turning, turning/<queue>   queues that began or ended to age, and their shares that have yet to get or lose turns
--
-- `lanes` and `tops` may lack what a closed gate keeps away (gates.lua), and may have a level whose gate is closed.

-- What a task costs a key of weight 1.
local ROUND = 1048576
-- The length of the word of a rank.
local RANK = 33

local function level_of(row)
  return 255 - tonumber(row.priority)
end

-- The first entry of a line at a level, with its score.
local function first_at(key, level)
  return call("ZRANGEBYSCORE", key, text(level * ORDERS), "(" .. text((level + 1) * ORDERS), "WITHSCORES", "LIMIT", 0, 1)
end

local function show_head(queue, kind, level)
  local first = first_at(base .. "ready/" .. queue .. "/" .. kind, level)
  local member = string.format("%03d %s", level, kind)
  if first[1] then
    call("ZADD", base .. "lanes/" .. queue, first[2], member)
  else
    call("ZREM", base .. "lanes/" .. queue, member)
  end
end

local function round_at(home, level)
  local found = call("HGET", base .. "rounds/" .. home, level)
  if not found then
    return nil
  end
  local shares, reached, front, plain = string.match(found, "^(%S+) (%S+) (%S+) (%S+)$")
  return { shares = tonumber(shares), level = tonumber(reached), front = tonumber(front), plain = tonumber(plain) }
end

local function keep_round(home, level, round)
  if round.shares == 0 then
    call("HDEL", base .. "rounds/" .. home, level)
  else
    call("HSET", base .. "rounds/" .. home, level,
      table.concat({ text(round.shares), text(round.level), text(round.front), text(round.plain) }, " "))
  end
end

-- What a task costs its key.
local function cost_of(key)
  local gate = gate_of("2/" .. key)
  return math.floor(ROUND / (gate and math.max(gate.weight, 1) or 1))
end

local function rank_of(level, pass, order)
  return string.format("%03d%016.0f%014.0f", level, pass, order)
end

-- The first rank of a lane at a level.
local function rank_at(lane, level)
  return call("ZRANGEBYLEX", base .. "ranks/" .. lane, string.format("[%03d", level), string.format("(%03d", level + 1),
    "LIMIT", 0, 1)[1]
end

-- The ranks of a lane at a level changed, where `before` was the first: shows the first to the queue.
local function show_top(queue, kind, level, before)
  local after = rank_at(queue .. "/" .. kind, level)
  if after == before then
    return
  end
  if before then
    call("ZREM", base .. "tops/" .. queue, string.sub(before, 1, RANK) .. kind)
  end
  if after then
    call("ZADD", base .. "tops/" .. queue, 0, string.sub(after, 1, RANK) .. kind)
  end
end

local function turn_at(lane, key, level)
  local found = call("HGET", base .. "turns/" .. lane .. "/" .. key, level)
  if found then
    local pass, order = string.match(found, "^(%S+) (%S+)$")
    return tonumber(pass), tonumber(order)
  end
end

local function keep_turn(lane, key, level, pass, order)
  call("HSET", base .. "turns/" .. lane .. "/" .. key, level, text(pass) .. " " .. text(order))
end

-- A share enters the rounds of a level, at the end of the current one.
local function take_turn(queue, kind, key, level)
  local lane, reached = queue .. "/" .. kind, 0
  for _, home in ipairs({ queue, lane }) do
    local round = round_at(home, level) or { shares = 0, level = 0, front = 0, plain = 0 }
    round.shares = round.shares + 1
    reached = math.max(reached, round.level)
    keep_round(home, level, round)
  end
  call("SADD", base .. "shares/" .. key, lane)
  call("SADD", base .. "parties/" .. queue, kind .. "/" .. key)
  return reached + cost_of(key)
end

local function leave_turn(queue, kind, key, level)
  local lane = queue .. "/" .. kind
  local turns = base .. "turns/" .. lane .. "/" .. key
  call("HDEL", turns, level)
  if call("EXISTS", turns) == 0 then
    call("SREM", base .. "shares/" .. key, lane)
    call("SREM", base .. "parties/" .. queue, kind .. "/" .. key)
  end
  for _, home in ipairs({ queue, lane }) do
    local round = round_at(home, level)
    if round then
      round.shares = round.shares - 1
      keep_round(home, level, round)
    end
  end
end

-- The first task of a share at a level is now the one of this place in line, or there is none.
local function set_first(queue, kind, key, level, order)
  local lane = queue .. "/" .. kind
  local ranks, before = base .. "ranks/" .. lane, rank_at(lane, level)
  local pass, old = turn_at(lane, key, level)
  if pass then
    call("ZREM", ranks, rank_of(level, pass, old) .. key)
  end
  if order then
    pass = pass or take_turn(queue, kind, key, level)
    keep_turn(lane, key, level, pass, order)
    call("ZADD", ranks, 0, rank_of(level, pass, order) .. key)
  elseif pass then
    leave_turn(queue, kind, key, level)
  end
  show_top(queue, kind, level, before)
end

-- A share has paid more at a level.
local function charge_share(lane, key, level, paid)
  local pass, order = turn_at(lane, key, level)
  if not pass or pass >= paid then
    return
  end
  local queue, kind = string.match(lane, "^(.*)/(.*)$")
  local before = rank_at(lane, level)
  call("ZREM", base .. "ranks/" .. lane, rank_of(level, pass, order) .. key)
  keep_turn(lane, key, level, paid, order)
  call("ZADD", base .. "ranks/" .. lane, 0, rank_of(level, paid, order) .. key)
  show_top(queue, kind, level, before)
end

local function split(score)
  local level = math.floor(tonumber(score) / ORDERS)
  return level, tonumber(score) - level * ORDERS
end

local function ages(queue)
  local gate = gate_of("0/" .. queue)
  return gate and gate.ageing
end

-- The level and place of the first task of a share, in a queue that does not age.
local function head_of(lane, key)
  local turn = call("HGETALL", base .. "turns/" .. lane .. "/" .. key)
  if turn[1] then
    return tonumber(turn[1]), tonumber(string.match(turn[2], " (%S+)$"))
  end
end

-- The levels at which a line has tasks, with the first of each.
local function levels_of(key)
  local levels, from = {}, 0
  while true do
    local first = call("ZRANGEBYSCORE", key, text(from * ORDERS), "+inf", "WITHSCORES", "LIMIT", 0, 1)
    if not first[1] then
      return levels
    end
    local level, order = split(first[2])
    levels[#levels + 1] = { level = level, order = order }
    from = level + 1
  end
end

-- A share gets a turn at every level of its tasks, or keeps only that of the first.
local function set_turns(queue, kind, key, aged)
  local lane = queue .. "/" .. kind
  for i, first in ipairs(levels_of(base .. "ready/" .. lane .. "/" .. key)) do
    if not aged and i > 1 then
      set_first(queue, kind, key, first.level, nil)
    elseif aged and not turn_at(lane, key, first.level) then
      set_first(queue, kind, key, first.level, first.order)
    end
  end
end

-- When a queue begins or ends to age, its shares are turned over some at a time: those in turning/<queue> are as they were before. One that
-- is touched is turned over first.
local function turn_share(row, aged)
  if call("SREM", base .. "turning/" .. row.queue, row.kind .. "/" .. row.key) == 1 then
    set_turns(row.queue, row.kind, row.key, aged)
  end
end

-- Turns some more shares over. Returns whether there are others.
local function go_on_turning()
  local left = SHARES_TURNED_MAX
  for _, queue in ipairs(call("SRANDMEMBER", base .. "turning", SHARES_TURNED_MAX)) do
    local shares = left > 0 and call("SPOP", base .. "turning/" .. queue, left) or {}
    left = left - #shares
    for _, party in ipairs(shares) do
      local kind, key = string.match(party, "^(.*)/(.*)$")
      set_turns(queue, kind, key, ages(queue))
    end
    if call("EXISTS", base .. "turning/" .. queue) == 0 then
      call("SREM", base .. "turning", queue)
    end
  end
  if call("EXISTS", base .. "turning") == 1 then
    return true
  end
  call("HDEL", KEYS[1], "turning")
  turning = false
  return false
end

local function enter_share(name, row)
  local lane, level, order = row.queue .. "/" .. row.kind, level_of(row), tonumber(row.order)
  local aged = ages(row.queue)
  if turning then
    turn_share(row, aged)
  end
  call("ZADD", base .. "ready/" .. lane .. "/" .. row.key, text(level * ORDERS + order), name)
  if aged then
    local _, first = turn_at(lane, row.key, level)
    if not first or order < first then
      set_first(row.queue, row.kind, row.key, level, order)
    end
    return
  end
  local before, first = head_of(lane, row.key)
  if before and (before < level or (before == level and first < order)) then
    return
  end
  if before and before ~= level then
    set_first(row.queue, row.kind, row.key, before, nil)
  end
  set_first(row.queue, row.kind, row.key, level, order)
end

local function leave_share(name, row)
  local lane, level, order = row.queue .. "/" .. row.kind, level_of(row), tonumber(row.order)
  local ready, aged = base .. "ready/" .. lane .. "/" .. row.key, ages(row.queue)
  if turning then
    turn_share(row, aged)
  end
  if call("ZREM", ready, name) == 0 then
    return
  end
  local _, first = turn_at(lane, row.key, level)
  if first ~= order then
    return
  end
  local next
  if aged then
    next = first_at(ready, level)
  else
    next = call("ZRANGE", ready, 0, 0, "WITHSCORES")
  end
  local at, place
  if next[1] then
    at, place = split(next[2])
  end
  if at ~= level then
    set_first(row.queue, row.kind, row.key, level, nil)
  end
  if at then
    set_first(row.queue, row.kind, row.key, at, place)
  end
end

-- The lanes that tasks without a key enter with this call: their words for ZADD, and the first by level. Whoever looks at these lines
-- has them written first.
local entering = {}

local function write_lines()
  local written = entering
  entering = {}
  for lane, entry in pairs(written) do
    call_for_all("ZADD", base .. "ready/" .. lane, entry.words, 2)
    for level, score in pairs(entry.firsts) do
      call("ZADD", base .. "lanes/" .. entry.queue, "LT", text(score), string.format("%03d %s", level, entry.kind))
    end
  end
end

-- Tasks without a key, by name and place, take their places in the line of a row.
local function enter_lane(row, names, orders)
  local lane, level = row.queue .. "/" .. row.kind, level_of(row)
  local entry = entering[lane]
  if not entry then
    entry = { queue = row.queue, kind = row.kind, words = {}, firsts = {} }
    entering[lane] = entry
  end
  local words, at = entry.words, #entry.words
  for i, name in ipairs(names) do
    local score = level * ORDERS + orders[i]
    words[at + 1], words[at + 2] = text(score), name
    at = at + 2
    if not entry.firsts[level] or score < entry.firsts[level] then
      entry.firsts[level] = score
    end
  end
end

-- A ready task takes its place in line.
local function enter_line(name, row)
  if row.key ~= NO_KEY then
    return enter_share(name, row)
  end
  enter_lane(row, { name }, { tonumber(row.order) })
end

-- It leaves, unless a claim took it out before.
local function leave_line(name, row)
  if row.key ~= NO_KEY then
    return leave_share(name, row)
  end
  write_lines()
  if call("ZREM", base .. "ready/" .. row.queue .. "/" .. row.kind, name) == 1 then
    show_head(row.queue, row.kind, level_of(row))
  end
end

-- Shows everything of a lane to its queue again.
show_lane = function(queue, kind)
  for _, first in ipairs(levels_of(base .. "ready/" .. queue .. "/" .. kind)) do
    call("ZADD", base .. "lanes/" .. queue, text(first.level * ORDERS + first.order),
      string.format("%03d %s", first.level, kind))
  end
  local lane, from = queue .. "/" .. kind, 0
  while true do
    local rank = call("ZRANGEBYLEX", base .. "ranks/" .. lane, string.format("[%03d", from), "+", "LIMIT", 0, 1)[1]
    if not rank then
      return
    end
    call("ZADD", base .. "tops/" .. queue, 0, string.sub(rank, 1, RANK) .. kind)
    from = tonumber(string.sub(rank, 1, 3)) + 1
  end
end

-- Puts a share back into the order of its lane.
show_share = function(lane, key)
  local queue, kind = string.match(lane, "^(.*)/(.*)$")
  local turns = call("HGETALL", base .. "turns/" .. lane .. "/" .. key)
  for i = 1, #turns, 2 do
    local level = tonumber(turns[i])
    local pass, order = string.match(turns[i + 1], "^(%S+) (%S+)$")
    local before = rank_at(lane, level)
    call("ZADD", base .. "ranks/" .. lane, 0, rank_of(level, tonumber(pass), tonumber(order)) .. key)
    show_top(queue, kind, level, before)
  end
end
