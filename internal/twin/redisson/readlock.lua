-- Read lock, acquire.
-- KEYS: 1 lock, 2 the prefix of this reader's expiries
-- ARGV: 1 lease in ms, 2 field, 3 field as a writer
-- Returns: nil if it is ours, else the remaining time in ms
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'read')
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('SET', KEYS[2] .. ':1', 1)
  redis.call('PEXPIRE', KEYS[2] .. ':1', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
if mode == 'read' or mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then
  local hold = KEYS[2] .. ':' .. redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('SET', hold, 1)
  redis.call('PEXPIRE', hold, ARGV[1])
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[1])))
  return nil
end
return redis.call('PTTL', KEYS[1])
