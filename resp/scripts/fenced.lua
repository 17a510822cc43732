-- fenced: takes every free key under one owner id, each with a fencing token that is greater than any
-- before it. Asking again under an owner id that holds the key answers the token it was given, or a new one where
-- the counter was deleted meanwhile: what it was given, nobody was told.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  '1': further keys may be copied from the first one granted
-- ARGV[5]  '1': SET knows GET
-- ARGV[6+] the keys, where KEYS is empty
-- returns  {now} when the not-after has passed; else {now, granted, token, i, v, i, v, ...} where a key
--          that is not named was granted with this token, and v is: > 0 granted, with the token v; -1 busy,
--          no expiry; -3 another kind of lock; <= -10 busy, -v - 10 ms remain; or the error of this key
--          alone.
-- cost     first key: exists, hset, pexpire, set (before 6.2: get, too); every further one: copy, set.
-- The token is the server's time in µs, or one more than the last where that is ahead: it rises
-- across a FLUSHALL. Written as an integer, for Redisson's INCR.
local call = redis.pcall
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local micros = time[1] * 1000000 + time[2]
local next = string.format('%.0f', micros)
local lease, field, copying, swaps = ARGV[1], ARGV[2], ARGV[4] == '1', ARGV[5] == '1'
local out, granted, template = {now, 0, micros}, 0, nil

local function counter(key)
  if string.find(key, '{', 1, true) then
    return 'redisson_lock_token:' .. key
  end
  return 'redisson_lock_token:{' .. key .. '}'
end

local most = 2 ^ 53 -- from here on numbers of Lua, do not go up by one

local function number(key, last)
  if type(last) == 'table' then
    return nil, last
  end
  local value = tonumber(last or 0)
  if not value or value ~= value or value >= most then
    return nil, {err = 'HOLDFAST the fencing token is not a number that can be counted up: ' .. counter(key)}
  end
  return value
end

-- A key that cannot get its token, or its TTL, must not stay.
local function undo(key, failed)
  if call('HDEL', key, field) ~= 1 then
    return {err = 'HOLDFAST key without expiry or token could not be undone, delete it by hand: ' .. key}
  end
  return failed
end

-- A token, or the error; then the key does not stay, unless it was ours before: a copy that comes late must not
-- take what is held.
local function token(key, ours)
  local last, failed
  if swaps then
    local was = call('SET', counter(key), next, 'GET')
    last, failed = number(key, was)
    if failed then
      if type(was) == 'string' then
        call('SET', counter(key), was) -- refused or not: it was allowed a moment ago
      end
      return ours and failed or undo(key, failed)
    end
    if last < micros then
      return micros
    end
  else
    last, failed = number(key, call('GET', counter(key)))
    if failed then
      return ours and failed or undo(key, failed)
    end
  end
  last = math.max(last + 1, micros)
  local set = call('SET', counter(key), string.format('%.0f', last))
  if set.err then
    return ours and set or undo(key, set)
  end
  return last
end

local function busy(key)
  local mode = call('HEXISTS', key, 'mode')
  if mode == 1 then
    return -3
  elseif mode ~= 0 then
    return mode
  end
  local left = call('PTTL', key)
  if type(left) == 'table' or left < 0 then
    return left
  end
  return -left - 10
end

-- The second result is true if the key was made, not held before with a TTL that may be longer.
local function take(key)
  local there = call('EXISTS', key)
  if there == 1 then
    local mine = call('HEXISTS', key, field)
    if mine == 0 then
      return busy(key)
    elseif mine ~= 1 then
      return mine
    end
    local left = call('PTTL', key)
    if type(left) ~= 'table' and left < tonumber(lease) then
      left = call('PEXPIRE', key, lease)
    end
    if type(left) == 'table' then
      return left
    end
    local given, failed = number(key, call('GET', counter(key)))
    if failed or given >= 1 then
      return failed or given
    end
    return token(key, true)
  elseif there ~= 0 then
    return there
  end
  local set = call('HSET', key, field, 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, lease)
  if ttl ~= 1 then
    return undo(key, ttl)
  end
  return token(key), true
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 5, #ARGV - 5
end
for i = 1, n do
  local key, v, made = keys[skip + i], nil, false
  if template then
    v = call('COPY', template, key)
    if v == 1 then
      v = token(key)
    elseif v == 0 then
      v = busy(key)
    else
      copying, template = false, nil
      v = take(key)
    end
  else
    v, made = take(key)
    if copying and made and type(v) == 'number' and v > 0 then
      template = key
    end
  end
  if v == micros then
    granted = granted + 1
  else
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = granted
return out
