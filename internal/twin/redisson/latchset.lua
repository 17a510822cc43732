-- RCountDownLatch, trySetCount.
-- KEYS: 1 count, 2 channel
-- ARGV: 1 message, 2 how many, 3 publish command
-- Returns: 1 it was set, 0 there was a count
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
redis.call(ARGV[3], KEYS[2], ARGV[1])
return 1
