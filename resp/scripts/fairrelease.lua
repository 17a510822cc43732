-- fairrelease: gives back every key that its field still holds. If a waiter that the caller names is next
-- in the queue it has the lock at once, with the lease it asks for; otherwise whoever is next is told. A
-- field that holds nothing leaves the queue.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4]  how many waiters follow at the end of ARGV that may have a lock next
-- ARGV[5]  grace in ms, and
-- ARGV[6]  Redisson's fairLockWaitTimeout in ms, as in fair
-- ARGV[7+] those keys, then field, n, field, n, ...: the field of the next n keys; then i, field, lease in
--          ms, ...: a waiter of the caller's for the i-th key
-- returns  as release; <= -10: passed on to the waiter whose number, without the leading 0, is -v - 10
-- cost     hdel, lindex; zscore and publish where somebody waits; passed on: hset, pexpire, lpop, zrem
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local publish, message, heirs = ARGV[1], ARGV[2], {}
for h = #ARGV - 3 * tonumber(ARGV[4]) + 1, #ARGV, 3 do
  heirs[ARGV[h] .. ' ' .. ARGV[h + 1]] = ARGV[h + 2]
end
local grace, place = tonumber(ARGV[5]), tonumber(ARGV[6])
local out, released = {now, 0}, 0

-- Until when a place is kept; 0: that is nowhere. Or the error: a command with two keys is refused where the
-- slot is on its way and they are not together.
local function score(queue, timeouts, field)
  local till = call('ZSCORE', timeouts, field)
  if not till then
    till = call('EXISTS', queue, timeouts)
    if type(till) ~= 'table' then
      return 0
    end
  end
  if type(till) == 'table' then
    return till
  end
  return tonumber(till)
end

-- Who is next, as in fair; nil: nobody, or the queue may not be read.
local function head(queue, timeouts)
  while true do
    local first = call('LINDEX', queue, 0)
    if type(first) ~= 'string' then
      return nil
    end
    local left = score(queue, timeouts, first)
    if type(left) == 'table' then
      return nil
    end
    left = left - now
    if left > 0 and find(first, ':0', 1, true) and left % place > grace then
      left = 0
    end
    if left > 0 then
      return first
    end
    call('ZREM', timeouts, first)
    local gone = call('LPOP', queue)
    if type(gone) == 'table' then -- nothing may be changed: it would stay the head for ever
      return nil
    end
  end
end

-- Tells who is next: how many heard it, -2 publish was refused.
local function tell(tag, first)
  local heard = call(publish, 'redisson_lock__channel:' .. tag .. ':' .. first, message)
  if type(heard) == 'table' then
    return -2
  end
  return heard
end

-- Gives the lock to the head of the queue; nil: it cannot be.
local function pass(key, first, queue, timeouts, lease)
  local set = call('HSET', key, first, 1)
  if type(set) == 'table' then
    return nil
  end
  if call('PEXPIRE', key, lease) ~= 1 then
    call('HDEL', key, first)
    return nil
  end
  call('LPOP', queue)
  call('ZREM', timeouts, first)
  for _, other in ipairs(call('ZRANGE', timeouts, 0, -1)) do
    if not find(other, ':0', 1, true) then
      call('ZINCRBY', timeouts, -place, other)
    end
  end
  return -tonumber(string.match(first, ':0(%d+)$')) - 10
end

local function leave(i, key, field)
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
    local first = head(queue, timeouts)
    if not first then
      return 0
    end
    local lease = heirs[i .. ' ' .. first]
    if lease and call('EXISTS', key) == 0 then
      local passed = pass(key, first, queue, timeouts, lease)
      if passed then
        return passed
      end
    end
    return tell(tag, first)
  end
  local first = call('LINDEX', queue, 0)
  local gone = call('LREM', queue, 0, field)
  if type(gone) == 'table' then
    return gone
  end
  call('ZREM', timeouts, field)
  if gone > 0 and first == field and call('EXISTS', key) == 0 then
    local next = head(queue, timeouts)
    if next then
      tell(tag, next)
    end
  end
  return -1
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 6, tonumber(ARGV[3])
end
local at, left, field = 7 + tonumber(ARGV[3]), 0, nil
for i = 1, n do
  if left == 0 then
    field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  end
  left = left - 1
  local v = leave(i, keys[skip + i], field)
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
