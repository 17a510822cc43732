-- acquireone: acquire for one key: the same, without what only several keys need.
--
-- KEYS[1]  lock key
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id, which was never used before
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- returns  now when it was granted; {now} when the not-after has passed; else {now, v} where v is: >= 0 busy, its
--          remaining ms; -1 busy, no expiry; -3 another kind of lock; or the error.
-- cost     exists, hset, pexpire. Busy: exists, hexists, pttl.
local call, key, field = redis.pcall, KEYS[1], ARGV[2]
local time = redis.call('TIME')
local micros = time[2]
local now = time[1] * 1000 + (micros - micros % 1000) / 1000
if now > tonumber(ARGV[3]) then
  return {now}
end
local v = call('EXISTS', key)
if v == 0 then
  v = call('HSET', key, field, '1')
  if type(v) == 'table' then
    return {now, v}
  end
  v = call('PEXPIRE', key, ARGV[1])
  if v == 1 then
    return now
  elseif call('HDEL', key, field) ~= 1 then -- a key that cannot get its TTL must not stay: it would be immortal
    return {now, {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}}
  end
elseif v == 1 then
  v = call('HEXISTS', key, 'mode')
  if v == 0 then
    v = call('PTTL', key)
  elseif v == 1 then
    v = -3
  end
end
return {now, v}
