-- write: takes every key as its only writer under one owner id. Asking again under an owner id that
-- writes already counts once.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id with ':write'
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  '1': further keys may be copied from the first one granted
-- ARGV[5]  how long in ms further readers are kept out where readers are in the way; '0': not at all
-- ARGV[6+] the keys, where KEYS is empty
-- returns  as acquire
-- cost     free: hget, exists, hset, pexpire; copied: copy
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local lease, field, copying, patience = ARGV[1], ARGV[2], ARGV[4] == '1', ARGV[5]
local wanted = tonumber(lease)
local out, granted, template = {now, 0}, 0, nil

-- Leaves a note for readers that come later. It expires; whoever waits renews it with every try. What
-- stands there and is no note is left alone.
local function await(key)
  local note = ':rwlock_writer'
  if find(key, '{', 1, true) then
    note = key .. note
  else
    note = '{' .. key .. '}' .. note
  end
  if type(call('GET', note)) == 'table' then
    return
  end
  call('SET', note, string.match(field, '^[^:]*'), 'PX', patience) -- refused or not: readers come in between, no more
end

-- The second result is true if the key was made: further keys may be copied from it. One that was held before may live
-- longer than this lease.
local function enter(key)
  local mode = call('HGET', key, 'mode')
  if type(mode) == 'table' then
    return mode
  end
  if mode then
    local mine = call('HEXISTS', key, field)
    if type(mine) == 'table' then
      return mine
    end
    local left = call('PTTL', key)
    if type(left) == 'table' then
      return left
    end
    if mine == 0 then
      if mode == 'read' and patience ~= '0' then
        await(key)
      end
      return left
    end
    if left < wanted then
      left = call('PEXPIRE', key, lease)
      if type(left) == 'table' then
        return left
      end
    end
    return nil
  end
  local there = call('EXISTS', key)
  if there == 1 then
    return -3
  elseif there ~= 0 then
    return there
  end
  local set = call('HSET', key, 'mode', 'write', field, 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, lease)
  if ttl == 1 then
    return nil, true
  end
  if call('HDEL', key, 'mode', field) ~= 2 then
    return {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}
  end
  return ttl
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
      v = nil
    else
      if type(v) == 'table' then
        copying, template = false, nil
        out[#out + 1] = 0
        out[#out + 1] = 0
      end
      v = enter(key)
    end
  else
    v, made = enter(key)
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
