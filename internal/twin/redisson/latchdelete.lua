-- RCountDownLatch, delete.
-- KEYS: 1 count, 2 channel
-- ARGV: 1 message, 2 publish command
-- Returns: 1 there was a count, 0 there was none
if redis.call('DEL', KEYS[1]) == 0 then
  return 0
end
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1
