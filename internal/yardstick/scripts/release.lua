-- Gives one hold back, and frees the lock with the last.
-- KEYS: 1 lock, 2 channel
-- ARGV: 1 message, 2 lease in ms, 3 field of the owner, 4 PUBLISH or SPUBLISH
-- Returns: nil if it is not ours, 0 if holds remain, 1 if it is free
-- Cost: 4 commands for the last hold
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
return 1
