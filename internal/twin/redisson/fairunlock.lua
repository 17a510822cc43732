-- Fair lock, release.
-- KEYS: 1 lock, 2 queue, 3 timeouts, 4 channel, 5 latch
-- ARGV: 1 message, 2 lease in ms, 3 field, 4 the client's time in ms, 5 publish command, 6 the latch's life in ms
-- Returns: nil not ours, 0 holds remain, 1 free
local done = redis.call('GET', KEYS[5])
if done then
  return tonumber(done)
end
while true do
  local first = redis.call('LINDEX', KEYS[2], 0)
  local score = first and redis.call('ZSCORE', KEYS[3], first)
  if not score or tonumber(score) > tonumber(ARGV[4]) then
    break
  end
  redis.call('ZREM', KEYS[3], first)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  local first = redis.call('LINDEX', KEYS[2], 0)
  if first then
    redis.call(ARGV[5], KEYS[4] .. ':' .. first, ARGV[1])
  end
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[6])
  return 1
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[5], 0, 'PX', ARGV[6])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[6])
local first = redis.call('LINDEX', KEYS[2], 0)
if first then
  redis.call(ARGV[5], KEYS[4] .. ':' .. first, ARGV[1])
end
return 1
