-- Where things are in a store that is spread: a directory by name, of which each part keeps a share.
--
-- ARGV[4]  how many. For each: the name, the part that it is wanted in ("" only to look, "-" to say that it is forgotten
--          there), and what stands in the way and may be replaced, as it was answered, or "".
-- Returns for each the part that the name belongs to, for how many milliseconds nobody has asked to put it there, and both as
-- they are stored; or nothing.
--
-- A name is put down before what it names is written, so what is written is found. Whoever finds it in another part looks
-- there. An entry stays as long as somebody who asked for it may still be on the way (see spread/homes.rs); `gone` holds
-- those that may be dropped after that.

local now = time_here()
local homes, gone = base .. "homes", base .. "homes_gone"
local answers = {}
for i = 1, tonumber(ARGV[4]) do
  local name, wanted, instead = ARGV[2 + 3 * i], ARGV[3 + 3 * i], ARGV[4 + 3 * i]
  local value = call("HGET", homes, name)
  local part = value and string.match(value, "^%d+")
  if wanted == "-" then
    if value and value == instead then
      call("HDEL", homes, name)
      call("ZREM", gone, name)
    elseif part then
      call("ZADD", gone, now, name)
    end
  elseif wanted ~= "" and (not value or part == wanted or value == instead) then
    -- No two entries are alike, so who replaces one knows that nobody asked for it since.
    value, part = wanted .. " " .. nonce .. " " .. text(now), wanted
    call("HSET", homes, name, value)
  end
  if value then
    answers[i] = { part, text(math.max(0, now - tonumber(string.match(value, "%d+$")))), value }
  else
    answers[i] = false
  end
end
return answers
