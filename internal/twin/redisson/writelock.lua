-- Write lock, acquire.
-- KEYS: 1 lock
-- ARGV: 1 lease in ms, 2 field as a writer
-- Returns: nil if it is ours, else the remaining time in ms
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write')
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], left + ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])
