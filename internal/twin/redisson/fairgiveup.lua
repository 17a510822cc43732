-- Fair lock, one who waits gives up.
-- KEYS: 1 queue, 2 timeouts
-- ARGV: 1 field, 2 wait in ms
-- Returns: nothing
local seen = false
for _, other in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if seen then
    redis.call('ZINCRBY', KEYS[2], -tonumber(ARGV[2]), other)
  elseif other == ARGV[1] then
    seen = true
  end
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])
