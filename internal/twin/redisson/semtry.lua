-- RSemaphore, tryAcquire.
-- KEYS: 1 permits
-- ARGV: 1 how many
-- Returns: 1 they were taken, 0 there are too few
local free = redis.call('GET', KEYS[1])
if free and tonumber(free) >= tonumber(ARGV[1]) then
  redis.call('DECRBY', KEYS[1], ARGV[1])
  return 1
end
return 0
