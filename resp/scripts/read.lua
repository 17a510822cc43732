-- read: enters every key as a reader under one owner id that was never used before. Asking again under a
-- owner id that reads already counts once, and lowers nothing.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  '1': further keys may be copied from the first one granted
-- ARGV[5]  a field of the caller's own that stands in the hash, to read or to write: it is let in beside
--          that, whoever waits; '': it has none
-- ARGV[6+] the keys, where KEYS is empty
-- returns  as acquire
-- cost     free: hget, exists, pttl, hset, pexpire, set; copied: exists, copy, set
-- A writer that waits (write.lua leaves a note that expires) lets no further reader in, but for the
-- one who writes now or reads already. The hash lives as long as the longest reader. Nothing is written
-- over a value of another type.
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local lease, field, copying, beside = ARGV[1], ARGV[2], ARGV[4] == '1', ARGV[5]
local wanted = tonumber(lease)
local out, granted, template = {now, 0}, 0, nil

local suffix = ':' .. field .. ':rwlock_timeout:1'

local function tagged(key)
  if find(key, '{', 1, true) then
    return key
  end
  return '{' .. key .. '}'
end

local function undo(key, fresh, failed)
  local undone
  if fresh then
    undone = call('HDEL', key, 'mode', field)
  else
    undone = call('HDEL', key, field)
  end
  if type(undone) == 'table' then
    return {err = 'HOLDFAST read hold could not be undone, delete it by hand: ' .. key}
  end
  return failed
end

-- The read hold's own expiry: made, or raised. Answers nil, or the error; then a hold that was there
-- before stays.
local function mark(key, tag, fresh, mine)
  local set = call('SET', tag .. suffix, '1', 'PX', lease, 'NX')
  if not set then -- it is there: of an earlier sending
    set = call('GET', tag .. suffix)
    if type(set) == 'string' then
      set = call('PTTL', tag .. suffix)
    end
    if type(set) == 'number' and set < wanted then
      set = call('PEXPIRE', tag .. suffix, lease)
    end
  end
  if type(set) == 'table' and set.err and mine == 1 then
    return set
  elseif type(set) == 'table' and set.err then
    return undo(key, fresh, set)
  end
  return nil
end

-- How long a waiting writer keeps further readers out; 0: there is none.
local function awaited(tag)
  local note = tag .. ':rwlock_writer'
  local left = call('PTTL', note)
  if type(left) == 'table' or left < 0 or type(call('GET', note)) ~= 'string' then
    return 0
  end
  return left + 1
end

local function join(key, tag, mode)
  local mine = call('HEXISTS', key, field)
  if type(mine) == 'table' then
    return mine
  end
  local left = call('PTTL', key)
  if type(left) == 'table' then
    return left
  end
  if mine == 0 and (beside == '' or call('HEXISTS', key, beside) ~= 1) then
    if mode == 'write' then
      return left
    end
    local wait = awaited(tag)
    if wait > 0 then
      if left >= 0 and left < wait then
        return left
      end
      return wait
    end
  end
  local set = call('HSET', key, field, 1)
  if type(set) == 'table' then
    return set
  end
  if left < wanted then
    local ttl = call('PEXPIRE', key, lease)
    if type(ttl) == 'table' then
      return mine == 1 and ttl or undo(key, false, ttl)
    end
  end
  return mark(key, tag, false, mine)
end

-- The second result is true if the key was made: further keys may be copied from it. One that was held before may live
-- longer than this lease.
local function enter(key, tag)
  local mode = call('HGET', key, 'mode')
  if type(mode) == 'table' then
    return mode
  elseif mode then
    return join(key, tag, mode)
  end
  local there = call('EXISTS', key)
  if there == 1 then
    return -3
  elseif there ~= 0 then
    return there
  end
  local wait = awaited(tag)
  if wait > 0 then
    return wait
  end
  local set = call('HSET', key, 'mode', 'read', field, 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, lease)
  if ttl ~= 1 then
    return undo(key, true, ttl)
  end
  local failed = mark(key, tag, true)
  return failed, failed == nil
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 5, #ARGV - 5
end
for i = 1, n do
  local key, v, made = keys[skip + i], nil, false
  local tag = tagged(key)
  if template and awaited(tag) == 0 then
    v = call('COPY', template, key)
    if v == 1 then
      v = mark(key, tag, true)
    else
      if type(v) == 'table' then
        copying, template = false, nil
        out[#out + 1] = 0
        out[#out + 1] = 0
      end
      v = enter(key, tag)
    end
  else
    v, made = enter(key, tag)
    if copying and made then
      template = key
    end
  end
  if v == nil then
    granted = granted + 1
  else
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = granted
return out
