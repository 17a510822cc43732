-- RSemaphore, release.
-- KEYS: 1 permits, 2 channel
-- ARGV: 1 how many, 2 publish command
-- Returns: nil
local free = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call(ARGV[2], KEYS[2], free)
return nil
