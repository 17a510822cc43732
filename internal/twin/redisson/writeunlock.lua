-- Write lock, release.
-- KEYS: 1 lock, 2 channel, 3 latch
-- ARGV: 1 message, 2 lease in ms, 3 field as a writer, 4 publish command, 5 the latch's life in ms
-- Returns: nil not ours, 0 holds remain, 1 free of this writer
local done = redis.call('GET', KEYS[3])
if done then
  return tonumber(done)
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[4], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
  return nil
end
if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
return 1
