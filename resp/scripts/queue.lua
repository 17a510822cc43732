-- queue: who waits for a fair lock, in order: the first 10000, or a megabyte of them.
--
-- KEYS[1]  key of the queue: it says at which end of a slot on its way the waiters are
-- returns  {server's time in ms, field, score, field, score, ...}; a score is the time until which
--          the place is kept
-- cost     lrange for each two waiters, and a zscore for each
local MOST, PAGE, BYTES = 9999, 2, 1048576 -- the last place; places of a page: each may be as large as somebody likes
local time = redis.call('TIME')
local queue = KEYS[1]
local timeouts = 'redisson_lock_timeout:' .. string.sub(queue, #'redisson_lock_queue:' + 1)
local out = {time[1] * 1000 + math.floor(time[2] / 1000)}
local bytes = 0
for from = 0, MOST, PAGE do
  local waiting = redis.pcall('LRANGE', queue, from, from + PAGE - 1)
  if waiting.err then
    return waiting
  end
  for _, field in ipairs(waiting) do
    bytes = bytes + #field -- a reply that is too large ends its connection
    if bytes > BYTES then
      return out
    end
    out[#out + 1] = field
    out[#out + 1] = redis.call('ZSCORE', timeouts, field) or '0'
  end
  if #waiting < PAGE then
    break
  end
end
return out
