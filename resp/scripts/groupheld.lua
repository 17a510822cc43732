-- groupheld: who has values of a group.
--
-- KEYS[1]  the group
-- ARGV[1]  a value; and further ones behind it
-- returns  {server's time in ms, value, owner id, until when, how often, ...} of those that are held: of an owner id the
--          first 128 bytes. Or the error.
-- cost     hmget of each value, of those that are held twice
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- needs: group
local key, values = KEYS[1], ARGV
local owners, tills = holders(key, values)
if owners.err then
  return owners
end
local out = {now}
for i, value in ipairs(values) do
  if tills[i] > now then
    local count = redis.pcall('HGET', key, count_of(value, owners[i]))
    if type(count) == 'table' then
      return count
    end
    out[#out + 1] = value
    out[#out + 1] = string.sub(owners[i], 1, 128) -- a reply that is too large ends its connection
    out[#out + 1] = string.format('%.0f', math.min(tills[i], 9007199254740992))
    out[#out + 1] = string.sub(count or '0', 1, 20)
  end
end
return out
