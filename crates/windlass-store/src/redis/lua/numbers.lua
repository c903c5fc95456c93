-- The orders of tasks by number: state/<state>, and age/<queue> of those that are pending there; and `prunes`, which is by time.
--
-- A member is a name, or "<name>+<name>" for all numbers from one to the other. No number is in two members. Tasks that come together
-- mostly stay together, and then there is one write for all of them, where one for each would be the larger part of what they
-- cost Redis. It is one table because Lua has room for 200 locals.

local numbers = {}
do
  -- The first and the last number of a member.
  function numbers.ends_of(member)
    local first, last = string.match(member, "^(%d+)%+?(%d*)$")
    return tonumber(first), tonumber(last ~= "" and last or first)
  end

  local function member_of(first, last)
    return first == last and first or first .. "+" .. last
  end

  -- Runs of names whose numbers follow each other: the first and the last name of each.
  function numbers.runs_of(names)
    local runs, first, before = {}, names[1], tonumber(names[1])
    for i = 2, #names + 1 do
      local number = tonumber(names[i] or -1)
      if number ~= before + 1 then
        runs[#runs + 1] = first
        runs[#runs + 1] = names[i - 1]
        first = names[i]
      end
      before = number
    end
    return runs
  end

  function numbers.put(order, runs)
    local words = {}
    for at = 1, #runs, 2 do
      words[at], words[at + 1] = runs[at], member_of(runs[at], runs[at + 1])
    end
    call_for_all("ZADD", base .. order, words, 2)
  end

  local function put_numbers(key, first, last)
    if first <= last then
      local name = name_of(first)
      call("ZADD", key, name, member_of(name, name_of(last)))
    end
  end

  -- Takes all numbers from one to another out, and leaves what else their members stand for.
  local function cut_out(key, from, till)
    local members = call("ZRANGEBYSCORE", key, "(" .. text(from), text(till))
    members[#members + 1] = call("ZREVRANGEBYSCORE", key, text(from), "-inf", "LIMIT", 0, 1)[1]
    for _, member in ipairs(members) do
      local first, last = numbers.ends_of(member)
      if last >= from then
        call("ZREM", key, member)
        put_numbers(key, first, math.min(last, from - 1))
        put_numbers(key, math.max(first, till + 1), last)
      end
    end
  end

  -- Takes runs out: at once where they are members, else by `cut`.
  local function take_out(key, runs, cut)
    local alone = {}
    for at = 1, #runs, 2 do
      local first, last = runs[at], runs[at + 1]
      if first == last then
        alone[#alone + 1] = first
      elseif call("ZREM", key, member_of(first, last)) == 0 then
        cut(tonumber(first), tonumber(last))
      end
    end
    if call_for_all("ZREM", key, alone, 1) < #alone then
      -- Those that are out already are in no other member.
      for _, name in ipairs(alone) do
        cut(tonumber(name), tonumber(name))
      end
    end
  end

  function numbers.take(order, runs)
    local key = base .. order
    take_out(key, runs, function(from, till)
      cut_out(key, from, till)
    end)
  end

  -- Which tasks enter (true) or leave (false) each order by this call; one that left it and came back stays ("stays").
  local standing = {}

  local function change(order, name, enters)
    local names = standing[order]
    if not names then
      names = {}
      standing[order] = names
    end
    local before = names[name]
    if enters and (before == false or before == "stays") then
      names[name] = "stays"
    elseif not enters and before == true then
      names[name] = nil
    else
      names[name] = enters
    end
  end

  function numbers.enter(order, name)
    change(order, name, true)
  end

  function numbers.leave(order, name)
    change(order, name, false)
  end

  local function write(order, names, act)
    if #names > 0 then
      table.sort(names)
      act(order, numbers.runs_of(names))
    end
  end

  -- Names that leave `prunes`, by the time at which they stand there.
  local spared = {}

  function numbers.spare(time, name)
    spared[time] = spared[time] or {}
    table.insert(spared[time], name)
  end

  -- Tasks that ended together are to be forgotten together.
  function numbers.put_prunes(time, runs)
    local words = {}
    for at = 1, #runs, 2 do
      words[at], words[at + 1] = time, member_of(runs[at], runs[at + 1])
    end
    call_for_all("ZADD", base .. "prunes", words, 2)
  end

  -- As `cut_out`, among the members of one time: these are in order of their numbers.
  local function cut_prunes(time, from, till)
    local key = base .. "prunes"
    local low = call("ZCOUNT", key, "-inf", "(" .. time)
    local first, behind = low, low + call("ZCOUNT", key, time, time)
    local past = behind
    -- Finds the first that begins behind `from`; the one before it may reach into what is cut out.
    while first < past do
      local middle = math.floor((first + past) / 2)
      if numbers.ends_of(call("ZRANGE", key, middle, middle)[1]) <= from then
        first = middle + 1
      else
        past = middle
      end
    end
    local begin = math.max(first - 1, low)
    if begin >= behind then
      return
    end
    for _, member in ipairs(call("ZRANGE", key, begin, math.min(behind - 1, begin + 1 + till - from))) do
      local lowest, highest = numbers.ends_of(member)
      if highest >= from and lowest <= till then
        call("ZREM", key, member)
        for _, rest in ipairs({ { lowest, math.min(highest, from - 1) }, { math.max(lowest, till + 1), highest } }) do
          if rest[1] <= rest[2] then
            call("ZADD", key, time, member_of(name_of(rest[1]), name_of(rest[2])))
          end
        end
      end
    end
  end

  local function settle_spared()
    local left = spared
    spared = {}
    for time, names in pairs(left) do
      table.sort(names)
      take_out(base .. "prunes", numbers.runs_of(names), function(from, till)
        cut_prunes(time, from, till)
      end)
    end
  end

  function numbers.settle()
    settle_spared()
    local changed = standing
    standing = {}
    for order, names in pairs(changed) do
      local gone, come = {}, {}
      for name, enters in pairs(names) do
        if enters == true then
          come[#come + 1] = name
        elseif not enters then
          gone[#gone + 1] = name
        end
      end
      write(order, gone, numbers.take)
      write(order, come, numbers.put)
    end
  end
end
