-- fair: takes every key that is free and whose queue is empty or headed by the caller; elsewhere the
-- caller gets, or keeps, its place in the queue.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[3]  '1': wait in the queue; '0': do not
-- ARGV[4]  grace in ms: how long a waiter that does not ask again keeps its place at the head
-- ARGV[5]  Redisson's fairLockWaitTimeout in ms: what a place further back adds to that
-- ARGV[6]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[7+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  as acquire; what remains of a busy one is the holder's, or of the head's place
-- cost     free and nobody waits: exists, lindex, hset, pexpire
-- Scores are the server's time in ms: when a waiter was last heard of, and the grace, and a place's worth
-- for each that stands before it, because Redisson takes that off with each grant. A live waiter of ours
-- puts its own right with each time it asks. Ours are told from Redisson's by a number that begins with 0;
-- what a dead one's score has over whole places gives it away.
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[2]) then
  return {now}
end
local lease, waits, grace, place = ARGV[1], ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5])
local out, granted = {now, 0}, 0

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

-- Who is next, after those whose time is over have been taken out; false: nobody. And how long its
-- place is kept.
local function head(queue, timeouts)
  while true do
    local first = call('LINDEX', queue, 0)
    if not first or type(first) == 'table' then
      return first
    end
    local left = score(queue, timeouts, first)
    if type(left) == 'table' then
      return left
    end
    left = left - now
    if left > 0 and find(first, ':0', 1, true) then
      left = left % place
      if left > grace then
        left = 0
      end
    end
    if left > 0 then
      return first, left
    end
    call('ZREM', timeouts, first)
    local gone = call('LPOP', queue)
    if type(gone) == 'table' then -- nothing may be changed: it would stay the head for ever
      return gone
    end
  end
end

local function grant(key, field)
  local set = call('HSET', key, field, 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, lease)
  if ttl == 1 then
    return nil
  end
  if call('HDEL', key, field) ~= 1 then
    return {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}
  end
  return ttl
end

local function again(key)
  local left = call('PTTL', key)
  if type(left) ~= 'table' and left < tonumber(lease) then
    left = call('PEXPIRE', key, lease)
  end
  if type(left) == 'table' then
    return left
  end
  return nil
end

-- The caller's place, and its deadline in it.
local function enqueue(queue, timeouts, field)
  local at = call('LPOS', queue, field)
  if type(at) == 'table' then
    return at
  end
  if not at then
    at = call('RPUSH', queue, field)
    if type(at) == 'table' then
      return at
    end
    at = at - 1
  end
  local set = call('ZADD', timeouts, string.format('%.0f', now + grace + at * place), field)
  if type(set) == 'table' then
    call('LREM', queue, 1, field)
    return set
  end
  return nil
end

local function take(key, field)
  local there = call('EXISTS', key)
  if type(there) == 'table' then
    return there
  end
  if there == 1 and call('HEXISTS', key, 'mode') == 1 then
    return -3
  end
  local tag = key
  if not find(key, '{', 1, true) then
    tag = '{' .. key .. '}'
  end
  local queue, timeouts = 'redisson_lock_queue:' .. tag, 'redisson_lock_timeout:' .. tag
  local first, kept = head(queue, timeouts)
  if type(first) == 'table' then
    return first
  end
  if there == 1 then
    local mine = call('HEXISTS', key, field)
    if mine == 1 then
      return again(key)
    elseif mine ~= 0 then
      return mine
    end
  elseif not first or first == field then
    local failed = grant(key, field)
    if failed or not first then
      return failed
    end
    call('LPOP', queue)
    call('ZREM', timeouts, field)
    for _, other in ipairs(call('ZRANGE', timeouts, 0, -1)) do
      if not find(other, ':0', 1, true) then
        call('ZINCRBY', timeouts, -place, other)
      end
    end
    return nil
  end
  if waits then
    local failed = enqueue(queue, timeouts, field)
    if failed then
      return failed
    end
  end
  if there == 1 then
    return call('PTTL', key)
  end
  return kept
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 6, tonumber(ARGV[6])
end
local at, left, field = 7 + tonumber(ARGV[6]), 0, nil
for i = 1, n do
  if left == 0 then
    field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  end
  left = left - 1
  local v = take(keys[skip + i], field)
  if v == nil then
    granted = granted + 1
  else
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = granted
return out
