-- Who holds running tasks, and what there is of a task with that.
--
-- A claim takes tasks whose numbers mostly follow each other, and says the same of all of them. So it says it once: a member of the
-- sorted set `held` is "<name>+<name> <terms>", for all numbers from one to the other, by the first of them. No number is in two
-- members. The terms are: revision; number of the token of the first, from which those of the others follow; secret;
-- number of the call that claimed them; length of the lease; moment of the claim, or "-" if the record has it; length since it was
-- extended; end; beat; worker; and "x" once the lease was noticed as lost. `leases` has the first name of each member by its beat.
--
-- A member is split where one of its tasks ends, is extended or lost before the others. It is one table because Lua has room for
-- 200 locals.

local holds = {}
do
  local function shifted(terms, by)
    if by == 0 then
      return terms
    end
    local revision, number, rest = string.match(terms, "^(%S+) (%S+) (.*)$")
    return revision .. " " .. text(tonumber(number) + by) .. " " .. rest
  end

  function holds.beat_of(terms)
    return string.match(terms, "^%S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%S+)")
  end

  function holds.member_of(first, last, terms)
    return first .. "+" .. last .. " " .. terms
  end

  local function put_member(first, last, terms)
    local name = name_of(first)
    call("ZADD", base .. "held", name, holds.member_of(name, name_of(last), terms))
    return name
  end

  local function put(first, last, terms)
    call("ZADD", base .. "leases", holds.beat_of(terms), put_member(first, last, terms))
  end

  -- The member that a name is in.
  function holds.find(name)
    local number = tonumber(name)
    local member = call("ZREVRANGEBYSCORE", base .. "held", text(number), "-inf", "LIMIT", 0, 1)[1]
    if not member then
      return nil
    end
    local first, last, terms = string.match(member, "^(%d+)%+(%d+) (.*)$")
    if tonumber(last) >= number then
      return { member = member, name = first, first = tonumber(first), last = tonumber(last), terms = terms }
    end
  end

  -- The terms of one task, as if it were alone.
  function holds.of(name)
    local hold = holds.find(name)
    return hold and shifted(hold.terms, tonumber(name) - hold.first)
  end

  -- Takes some numbers out of the member that they are in.
  function holds.take(hold, from, till)
    call("ZREM", base .. "held", hold.member)
    if hold.first < from then
      put_member(hold.first, from - 1, hold.terms)
    else
      call("ZREM", base .. "leases", hold.name)
    end
    if till < hold.last then
      put(till + 1, hold.last, shifted(hold.terms, till + 1 - hold.first))
    end
  end

  -- Writes the terms of one task, or none.
  function holds.set(name, terms)
    local hold, number = holds.find(name), tonumber(name)
    if hold then
      holds.take(hold, number, number)
    end
    if terms then
      put(number, number, terms)
    end
  end
end

local function find(name)
  local value = call("HGET", base .. "tasks", name)
  if not value then
    return nil
  end
  local row = parse(value)
  local held = (row.state == PENDING or row.state == RUNNING) and holds.of(name)
  if held then
    row.held, row.state, row.wake = held, RUNNING, "-"
    row.revision, row.nonce = string.match(held, "^(%S+) %S+ %S+ (%S+) ")
  end
  return row
end

-- Writes the line of a task and its record.
local function write_row(name, row, record)
  call("HSET", base .. "tasks", name, line_of(row) .. "\n" .. record)
end

-- It runs no more.
local function let_go(name)
  holds.set(name, nil)
  call("HDEL", base .. "progress", name)
end

-- Everything of a task that Rust reads; the body is large, so it comes only when asked for.
local function show(name, with_body)
  local value = call("HGET", base .. "tasks", name)
  if not value then
    return false
  end
  local held = string.find(value, "^%S+ %S+ [23] ") and holds.of(name) or false
  local progress = held and call("HGET", base .. "progress", name)
  if with_body then
    return { value, held, progress, call("HGET", base .. "bodies", name), name }
  end
  return { value, held, progress, name }
end
