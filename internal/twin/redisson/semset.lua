-- RSemaphore, trySetPermits.
-- KEYS: 1 permits, 2 channel
-- ARGV: 1 how many, 2 publish command
-- Returns: 1 they were set, 0 there were some
if redis.call('GET', KEYS[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1
