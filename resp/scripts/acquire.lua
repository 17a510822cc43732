-- acquire: takes every free key of KEYS under one owner id that was never used before.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  '1': further keys may be made from the first one granted: by COPY, or in a cluster, where
--          COPY cannot leave the slot, by RESTORE of what DUMP says
-- ARGV[5+] the keys, where KEYS is empty
-- returns  {now} when the not-after has passed; else {now, granted, i, v, i, v, ...} where a key
--          that is not named was granted, and v is: >= 0 busy, its remaining ms; -1 busy, no expiry;
--          -3 another kind of lock; or the error of this key alone. i = 0: that was refused here.
-- cost     first key: exists, hset, pexpire (cluster: dump); every further one: copy (cluster: restore).
--          Busy: hexists, pttl on top (cluster: exists, too).
local call = redis.pcall
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local lease, field, copying = ARGV[1], ARGV[2], ARGV[4] == '1'
local out, granted, template = {now, 0}, 0, nil

local function busy(key)
  local mode = call('HEXISTS', key, 'mode')
  if mode == 0 then
    return call('PTTL', key)
  elseif mode == 1 then
    return -3
  end
  return mode
end

-- Answers nil for granted. A key that cannot get its TTL must not stay: it would be immortal.
local function take(key)
  local there = call('EXISTS', key)
  if there == 1 then
    return busy(key)
  elseif there ~= 0 then
    return there
  end
  local set = call('HSET', key, field, 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, lease)
  if ttl == 1 then
    return nil
  end
  local undone = call('HDEL', key, field)
  if undone ~= 1 then
    return {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}
  end
  return ttl
end

local keys, skip, n = KEYS, 0, #KEYS
local inline = n == 0
if inline then
  keys, skip, n = ARGV, 4, #ARGV - 4
  copying = copying and n > 1
end

-- What take says, by fewer commands; the second result is true if they are refused here.
local function clone(key)
  if inline then
    if call('RESTORE', key, lease, template).ok then
      return nil
    end
    local v = take(key) -- says whether the key is held, or elsewhere
    return v, v == nil
  end
  local v = call('COPY', template, key)
  if v == 1 then
    return nil
  elseif v == 0 then
    return busy(key)
  end
  return take(key), true
end

local function refused()
  copying, template = false, nil
  out[#out + 1] = 0
  out[#out + 1] = 0
end

for i = 1, n do
  local key, v, no = keys[skip + i], nil, false
  if template then
    v, no = clone(key)
    if no then
      refused()
    end
  else
    v = take(key)
    if copying and v == nil then
      template = key
      if inline then
        template = call('DUMP', key)
        if type(template) ~= 'string' then
          refused()
        end
      end
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
