-- inspect: what stands under a lock's name.
--
-- KEYS[1]  lock key
-- returns  {pttl, field, count, field, count, ...}; {-2} for no key; {pttl, n, mode}, '' for none, for a
--          hash of n fields that are more than are read
-- cost     hlen, pttl, hgetall; more fields than that: hget for hgetall
local most = 10000
local size = redis.pcall('HLEN', KEYS[1])
if type(size) == 'table' then
  return size
end
local left = redis.call('PTTL', KEYS[1])
if size > most then
  return {left, size, redis.call('HGET', KEYS[1], 'mode') or ''}
end
local fields = redis.pcall('HGETALL', KEYS[1]) -- at most 10000 fields
if fields.err then
  return fields
end
table.insert(fields, 1, left)
return fields
