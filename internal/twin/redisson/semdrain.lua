-- RSemaphore, drainPermits. The expiry is lost.
-- KEYS: 1 permits
-- Returns: how many there were
local free = redis.call('GET', KEYS[1])
if not free then
  return 0
end
redis.call('SET', KEYS[1], 0)
return free
