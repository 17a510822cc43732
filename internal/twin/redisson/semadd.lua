-- RSemaphore, addPermits. The expiry is lost.
-- KEYS: 1 permits, 2 channel
-- ARGV: 1 how many, or fewer than none; 2 publish command
-- Returns: nil
local free = tonumber(redis.call('GET', KEYS[1]) or 0) + tonumber(ARGV[1])
redis.call('SET', KEYS[1], free)
redis.call(ARGV[2], KEYS[2], free)
return nil
