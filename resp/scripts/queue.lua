-- queue: who waits for a fair lock, in order.
--
-- KEYS[1]  lock key
-- returns  {server's time in ms, field, score, field, score, ...}; a score is the time until which
--          the place is kept
-- cost     lrange, and a zscore for each waiter
local time = redis.call('TIME')
local key = KEYS[1]
local tag = key
if not string.find(key, '{', 1, true) then
  tag = '{' .. key .. '}'
end
local waiting = redis.pcall('LRANGE', 'redisson_lock_queue:' .. tag, 0, -1)
if waiting.err then
  return waiting
end
local out = {time[1] * 1000 + math.floor(time[2] / 1000)}
for _, field in ipairs(waiting) do
  out[#out + 1] = field
  out[#out + 1] = redis.call('ZSCORE', 'redisson_lock_timeout:' .. tag, field) or '0'
end
return out
