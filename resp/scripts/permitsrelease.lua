-- permitsrelease: gives leased permits back, and tells the waiters how many are free.
--
-- KEYS     semaphores; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  says nothing here: the message is how many are free
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then ids, n, ids, n, ...: the ids, 16 bytes each, that the next n keys have permits under
-- returns  {now, released, i, v, i, v, ...} where a key that is not named was given back and heard
--          by nobody, and v is: > 0 given back, heard by so many; -1 not all ids had a permit whose lease was not over:
--          what they had is given back; -2 given back, but publish was refused; or the error of this key alone.
-- cost     a zscore an id, get, zrem, incrby, publish
local call, sub = redis.pcall, string.sub
local time = redis.call('TIME')
local now, publish = time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1]

-- needs: permits
-- needs: count

local function give(key, ids)
  local timeouts, members, whole = timeouts_of(key), {}, true
  for i = 1, #ids, ID do
    local id = sub(ids, i, i + ID - 1)
    local score = call('ZSCORE', timeouts, id)
    if type(score) == 'table' then
      return score
    end
    if score then
      members[#members + 1] = score
      members[#members + 1] = id
    end
    whole = whole and score and tonumber(score) > now
  end
  if #members == 0 then
    return -1
  end
  local free = call('GET', key)
  if type(free) == 'table' then
    return free
  elseif free and not count_of(free) then
    return {err = 'WRONGTYPE what stands there is no number of permits'}
  end
  free = give_back(key, timeouts, members, free)
  if type(free) == 'table' then
    return free
  end
  local heard = free > 0 and tell(publish, key, free) or 0 -- fewer than none is no news, and ends Redisson's listener
  if not whole then
    return -1
  end
  return type(heard) == 'table' and -2 or heard
end

-- needs: each
return each_key(now, 3, give)
