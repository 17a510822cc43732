-- fairrelease: gives back every key that its field still holds, and tells whoever is next in its
-- queue. A field that holds nothing leaves the queue.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  as release
-- cost     hdel, lindex; zscore and publish where somebody waits
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local publish, message = ARGV[1], ARGV[2]
local out, released = {now, 0}, 0

-- Tells whoever is next: how many heard it, 0 where nobody waits, -2 publish was refused. Those whose
-- time is over are taken out first.
local function tell(tag, queue, timeouts)
  while true do
    local first = call('LINDEX', queue, 0)
    if type(first) == 'table' then
      return -2
    elseif not first then
      return 0
    end
    if tonumber(call('ZSCORE', timeouts, first) or 0) > now then
      local heard = call(publish, 'redisson_lock__channel:' .. tag .. ':' .. first, message)
      if type(heard) == 'table' then
        return -2
      end
      return heard
    end
    call('ZREM', timeouts, first)
    call('LPOP', queue)
  end
end

local function leave(key, field)
  local v = call('HDEL', key, field)
  if type(v) == 'table' then
    return v
  end
  local tag = key
  if not find(key, '{', 1, true) then
    tag = '{' .. key .. '}'
  end
  local queue, timeouts = 'redisson_lock_queue:' .. tag, 'redisson_lock_timeout:' .. tag
  if v == 1 then
    return tell(tag, queue, timeouts)
  end
  local first = call('LINDEX', queue, 0)
  local gone = call('LREM', queue, 0, field)
  if type(gone) == 'table' then
    return gone
  end
  call('ZREM', timeouts, field)
  if gone > 0 and first == field and call('EXISTS', key) == 0 then
    tell(tag, queue, timeouts)
  end
  return -1
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 3, tonumber(ARGV[3])
end
local at, left, field = 4 + tonumber(ARGV[3]), 0, nil
for i = 1, n do
  if left == 0 then
    field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  end
  left = left - 1
  local v = leave(keys[skip + i], field)
  if type(v) == 'number' and v ~= -1 then
    released = released + 1
  end
  if v ~= 0 then
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = released
return out
