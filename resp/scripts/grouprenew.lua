-- grouprenew: raises until when values are held, where their owner has all that a hold is of. Never lowers one, never
-- takes one.
--
-- KEYS     groups; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  says nothing here
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then the field of each key: the owner id and the values; or, where that is less: field, n, field,
--          n, ...: the field of the next n keys
-- returns  {now, renewed, i, v, i, v, ...} where a key that is not named was renewed, and v is
--          -1 not ours, or the error of this key alone.
-- cost     hmget of each value twice, pttl, pexpire, hset of a field each
local time = redis.call('TIME')
local now, lease = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1])

-- needs: group
-- needs: renewed

-- Answers nil, -1, or the error.
local function raise(key, field)
  local owner, values = parts(field)
  local owners, tills = holders(key, values)
  if owners.err then
    return owners
  elseif not has_all(owner, owners, tills, now) then
    return -1
  end
  local kept = keep(key, lease)
  if type(kept) == 'table' then
    return kept
  end
  local set = {}
  for i, value in ipairs(values) do
    set[#set + 1] = till_of(value, owner)
    set[#set + 1] = math.max(tills[i], now + lease)
  end
  local done = redis.pcall('HSET', key, unpack(set))
  return type(done) == 'table' and done or nil
end

return renew_each(now, raise)
