-- RLock, release.
-- KEYS: 1 lock, 2 channel, 3 latch
-- ARGV: 1 message, 2 lease in ms, 3 field, 4 publish command, 5 the latch's life in ms
-- Returns: nil not ours, 0 holds remain, 1 free
local done = redis.call('GET', KEYS[3])
if done then
  return tonumber(done)
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
return 1
