-- inspect: what stands under a lock's name.
--
-- KEYS[1]  lock key
-- returns  {pttl, field, count, field, count, ...}; {-2} for no key; {pttl, n, mode}, '' for none, for a
--          hash of n fields that are more, or longer, than are read
-- cost     hlen, pttl, hgetall; more than two fields: hscan for hgetall, once for each that is read
-- needs: contents

local MOST = 10000 -- fields
local size = redis.pcall('HLEN', KEYS[1])
if type(size) == 'table' then
  return size
end
local left = redis.call('PTTL', KEYS[1])
local fields
if size <= MOST then -- a reply that is too large ends its connection, and what everybody else asked over it has no answer
  fields = contents(KEYS[1], size)
end
if not fields then
  local mode = redis.call('HGET', KEYS[1], 'mode')
  if mode ~= 'read' and mode ~= 'write' then
    mode = ''
  end
  return {left, size, mode}
elseif not fields.err then
  table.insert(fields, 1, left)
end
return fields
