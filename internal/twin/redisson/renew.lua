-- The watchdog of every lock but the read lock.
-- KEYS: locks
-- ARGV: 1 life in ms, 2+ the field of each lock
-- Returns: 1 or 0 for each
local out = {}
for i, key in ipairs(KEYS) do
  if redis.call('HEXISTS', key, ARGV[i + 1]) == 1 then
    redis.call('PEXPIRE', key, ARGV[1])
    out[i] = 1
  else
    out[i] = 0
  end
end
return out
