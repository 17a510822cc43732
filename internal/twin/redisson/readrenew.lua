-- The watchdog of read locks.
-- KEYS: for each lock its name, and its name with its tag
-- ARGV: 1 life in ms, then for each lock how many fields follow, and those
-- Returns: 1 or 0 for each
local out, at = {}, 2
for i = 1, #KEYS, 2 do
  local n, alive = tonumber(ARGV[at]), 0
  for f = at + 1, at + n do
    local holds = redis.call('HGET', KEYS[i], ARGV[f])
    if holds then
      alive = 1
      for hold = holds, 1, -1 do
        redis.call('PEXPIRE', KEYS[i + 1] .. ':' .. ARGV[f] .. ':rwlock_timeout:' .. hold, ARGV[1])
      end
    end
  end
  if alive == 1 then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
  end
  out[#out + 1] = alive
  at = at + n + 1
end
return out
