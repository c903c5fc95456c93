-- The orders of tasks by number: state/<state>, and age/<queue> of those that are pending there.
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

  -- Runs of names whose numbers follow each other: the first and the last place of each.
  function numbers.runs_of(names)
    local runs, first, before = {}, 1, tonumber(names[1])
    for i = 2, #names + 1 do
      local number = tonumber(names[i] or -1)
      if number ~= before + 1 then
        runs[#runs + 1] = first
        runs[#runs + 1] = i - 1
        first = i
      end
      before = number
    end
    return runs
  end

  function numbers.put(order, names, runs)
    local words = {}
    for at = 1, #runs, 2 do
      local first, last = names[runs[at]], names[runs[at + 1]]
      words[at], words[at + 1] = first, member_of(first, last)
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

  function numbers.take(order, names, runs)
    local key, alone = base .. order, {}
    for at = 1, #runs, 2 do
      local first, last = names[runs[at]], names[runs[at + 1]]
      if first == last then
        alone[#alone + 1] = first
      elseif call("ZREM", key, member_of(first, last)) == 0 then
        cut_out(key, tonumber(first), tonumber(last))
      end
    end
    if call_for_all("ZREM", key, alone, 1) < #alone then
      -- Those that are out already are in no other member.
      for _, name in ipairs(alone) do
        cut_out(key, tonumber(name), tonumber(name))
      end
    end
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
      act(order, names, numbers.runs_of(names))
    end
  end

  function numbers.settle()
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
