-- Read lock, release.
-- KEYS: 1 lock, 2 channel, 3 the prefix of this reader's expiries, 4 the lock's name with its tag, 5 latch
-- ARGV: 1 message, 2 field, 3 publish command, 4 the latch's life in ms
-- Returns: nil not ours, 0 somebody is left, 1 free
local done = redis.call('GET', KEYS[5])
if done then
  return tonumber(done)
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[3], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
  return nil
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if count == 0 then
  redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[3] .. ':' .. (count + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local most, fields = -3, redis.call('HGETALL', KEYS[1])
  for f = 1, #fields, 2 do
    local holds = tonumber(fields[f + 1])
    if holds then
      for i = holds, 1, -1 do
        most = math.max(most, redis.call('PTTL', KEYS[4] .. ':' .. fields[f] .. ':rwlock_timeout:' .. i))
      end
    end
  end
  if most > 0 then
    redis.call('PEXPIRE', KEYS[1], most)
    redis.call('SET', KEYS[5], 0, 'PX', ARGV[4])
    return 0
  end
  if mode == 'write' then
    redis.call('SET', KEYS[5], 0, 'PX', ARGV[4])
    return 0
  end
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[3], KEYS[2], ARGV[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
return 1
