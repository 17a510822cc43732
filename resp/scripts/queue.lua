-- queue: who waits for a fair lock, in order: the first 10000, or a megabyte of them.
--
-- KEYS[1]  key of the queue: it says at which end of a slot on its way the waiters are
-- returns  {server's time in ms, field, score, field, score, ...}; a score is the time until which
--          the place is kept
-- cost     lrange, and a zscore for each waiter
local time = redis.call('TIME')
local queue = KEYS[1]
local timeouts = 'redisson_lock_timeout:' .. string.sub(queue, #'redisson_lock_queue:' + 1)
local waiting = redis.pcall('LRANGE', queue, 0, 9999)
if waiting.err then
  return waiting
end
local out = {time[1] * 1000 + math.floor(time[2] / 1000)}
local bytes = 0
for _, field in ipairs(waiting) do
  bytes = bytes + #field -- a reply that is too large ends its connection
  if bytes > 1048576 then
    break
  end
  out[#out + 1] = field
  out[#out + 1] = redis.call('ZSCORE', timeouts, field) or '0'
end
return out
