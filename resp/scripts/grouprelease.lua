-- grouprelease: gives values of groups back, however often their owner has them, and tells who waits for any of the
-- group.
--
-- KEYS     groups; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  {now, released, i, v, i, v, ...} where a key that is not named was given back and heard
--          by nobody, and v is: > 0 given back, heard by so many; -1 not all values were the owner's: what it had is given
--          back; -2 given back, but publish was refused; or the error of this key alone.
-- cost     hmget of each value, twice where it is held, hdel of three fields each, publish
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local now, publish, message = time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1], ARGV[2]

-- needs: group
-- needs: each

local function give(key, field)
  local owner, values = parts(field)
  local owners, tills = holders(key, values)
  if owners.err then
    return owners
  end
  local gone = {}
  for i, value in ipairs(values) do
    if owners[i] == owner then
      gone[#gone + 1] = value
    end
    gone[#gone + 1] = till_of(value, owner)
    gone[#gone + 1] = count_of(value, owner)
  end
  local had = call('HDEL', key, unpack(gone))
  if type(had) == 'table' then
    return had
  elseif had == 0 then
    return -1
  end
  local heard = call(publish, 'redisson_lock__channel:' .. (find(key, '{', 1, true) and key or '{' .. key .. '}'), message)
  if not has_all(owner, owners, tills, now) then
    return -1
  end
  return type(heard) == 'table' and -2 or heard
end

return each_key(now, 3, give)
