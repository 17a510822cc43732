-- demo: takes every free key of KEYS under one owner id, one key after the other: acquire without its copies. Only what is
-- built with the tag holdfast_family_demo sends it.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV     as acquire; [4] says nothing here
-- returns  as acquire
-- cost     a key: exists, hset, pexpire. Busy: pttl on top
local call = redis.pcall
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local out, granted = {now, 0}, 0

-- Answers nil for granted. A key that cannot get its TTL must not stay: it would be immortal.
local function take(key)
  local there = call('EXISTS', key)
  if there ~= 0 then
    return there == 1 and call('PTTL', key) or there
  end
  local set = call('HSET', key, ARGV[2], 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, ARGV[1])
  if ttl == 1 then
    return nil
  end
  if call('HDEL', key, ARGV[2]) ~= 1 then
    return {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}
  end
  return ttl
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 4, #ARGV - 4
end
for i = 1, n do
  local v = take(keys[skip + i])
  if v == nil then
    granted = granted + 1
  else
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = granted
return out
