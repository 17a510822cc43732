-- Takes a lock, or takes it once more.
-- KEYS: 1 lock
-- ARGV: 1 lease in ms, 2 field of the owner
-- Returns: nil if it is ours now, else the remaining time in ms
-- Cost: 3 commands for a free lock (4 for one of ours)
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])
