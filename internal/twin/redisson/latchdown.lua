-- RCountDownLatch, countDown. What is not there is counted down to -1, and told to nobody.
-- KEYS: 1 count, 2 channel
-- ARGV: 1 message, 2 publish command
-- Returns: nil
local left = redis.call('DECR', KEYS[1])
if left <= 0 then
  redis.call('DEL', KEYS[1])
end
if left == 0 then
  redis.call(ARGV[2], KEYS[2], ARGV[1])
end
return nil
