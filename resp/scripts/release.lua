-- release: gives back every key of KEYS that its field still holds, and tells the waiters.
-- HDEL frees under memory pressure, where HINCRBY would be refused.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH; '': nobody is told
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  {now, released, i, v, i, v, ...} where a key that is not named was released and heard
--          by nobody, and v is: > 0 released, heard by so many; -1 not ours, nothing changed;
--          -2 released, but publish was refused; or the error of this key alone.
-- cost     hdel, publish
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local publish, message = ARGV[1], ARGV[2]
local out, released = {time[1] * 1000 + math.floor(time[2] / 1000), 0}, 0
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
  local key = keys[skip + i]
  local v = call('HDEL', key, field)
  if v == 1 and publish == '' then
    released = released + 1
    v = 0
  elseif v == 1 then
    released = released + 1
    local channel
    if find(key, '{', 1, true) then
      channel = 'redisson_lock__channel:' .. key
    else
      channel = 'redisson_lock__channel:{' .. key .. '}'
    end
    v = call(publish, channel, message)
    if type(v) == 'table' then
      v = -2
    end
  elseif v == 0 then
    v = -1
  end
  if v ~= 0 then
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = released
return out
