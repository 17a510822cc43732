-- Fair lock, tryLock without waiting.
-- KEYS: 1 lock, 2 queue, 3 timeouts
-- ARGV: 1 lease in ms, 2 field, 3 the client's time in ms, 4 wait in ms
-- Returns: nil if it is ours, 1 if not
local now, wait = tonumber(ARGV[3]), tonumber(ARGV[4])
while true do
  local first = redis.call('LINDEX', KEYS[2], 0)
  local score = first and redis.call('ZSCORE', KEYS[3], first)
  if not score or tonumber(score) > now then
    break
  end
  redis.call('ZREM', KEYS[3], first)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0
  and (redis.call('EXISTS', KEYS[2]) == 0 or redis.call('LINDEX', KEYS[2], 0) == ARGV[2]) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    redis.call('ZINCRBY', KEYS[3], -wait, other)
  end
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return 1
