-- RLock, forceUnlock.
-- KEYS: 1 lock, 2 channel
-- ARGV: 1 message, 2 publish command
-- Returns: 1 it was there, 0 it was not
if redis.call('DEL', KEYS[1]) == 1 then
  redis.call(ARGV[2], KEYS[2], ARGV[1])
  return 1
end
return 0
