-- inspect: what stands under a lock's name.
--
-- KEYS[1]  lock key
-- returns  {pttl, field, count, field, count, ...}; {-2} for no key
-- cost     pttl, hgetall
local fields = redis.pcall('HGETALL', KEYS[1])
if fields.err then
  return fields
end
table.insert(fields, 1, redis.call('PTTL', KEYS[1]))
return fields
