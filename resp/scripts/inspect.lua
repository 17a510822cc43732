-- inspect: what stands under a lock's name.
--
-- KEYS[1]  lock key
-- returns  {pttl, field, count, field, count, ...}; {-2} for no key; {pttl, n, mode}, '' for none, for a
--          hash of n fields that are more, or longer, than are read
-- cost     hlen, pttl, hgetall; more fields than that: hget for hgetall
local most, longest = 10000, 1048576 -- fields; bytes of them and of their values
local size = redis.pcall('HLEN', KEYS[1])
if type(size) == 'table' then
  return size
end
local left = redis.call('PTTL', KEYS[1])
-- A reply that is too large ends its connection, and what everybody else asked over it has no answer.
local function not_read()
  local mode = redis.call('HGET', KEYS[1], 'mode')
  if mode ~= 'read' and mode ~= 'write' then
    mode = ''
  end
  return {left, size, mode}
end

if size > most then
  return not_read()
end
local fields = redis.pcall('HGETALL', KEYS[1]) -- at most 10000 fields
if fields.err then
  return fields
end
local bytes = 0
for _, text in ipairs(fields) do
  bytes = bytes + #text
end
if bytes > longest then
  return not_read()
end
table.insert(fields, 1, left)
return fields
