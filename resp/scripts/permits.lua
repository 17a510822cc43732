-- permits: leases permits, each under an id. Sending it any number of times counts once: ids that have permits keep
-- them, with the full lease again. What has expired is given back before: 100 at most, what is left by the next call.
--
-- KEYS[1]  how many permits are free
-- ARGV[1]  lease in ms
-- ARGV[2]  ids, 16 bytes each
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  says nothing here
-- ARGV[5]  publish command: PUBLISH or SPUBLISH
-- returns  {now} when the not-after has passed; else {now, 1}, or {now, 0, 1, v} with v: ms until the next permit expires,
--          -1 none does; -3 what stands there is no number; or the error
-- cost     get, zrangebyscore, a zscore an id; if there are enough: decrby, zadd, pttl; else zrangebyscore. For what has
--          expired zrem, incrby, publish
local call, sub = redis.pcall, string.sub
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- needs: permits
-- needs: count
local EXPIRED, NEVER = 100, 922337203685477 -- at most in a call; ms, of a permit that has no lease
local key, timeouts, free = KEYS[1], timeouts_of(KEYS[1]), nil

-- Gives back what has expired. Answers the refusal, or whether there was any.
local function collect()
  local over = call('ZRANGEBYSCORE', timeouts, '-inf', now, 'WITHSCORES', 'LIMIT', 0, EXPIRED)
  if over.err then
    return over
  elseif #over == 0 then
    return false
  end
  for i = 1, #over, 2 do
    over[i], over[i + 1] = over[i + 1], over[i]
  end
  local given = give_back(key, timeouts, over, true)
  if type(given) == 'table' then
    return given
  end
  free = given
  return true
end

-- When the next permit expires.
local function nearest()
  local first = call('ZRANGEBYSCORE', timeouts, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first.err then
    return first
  end
  local at = tonumber(first[2] or NEVER)
  return at >= NEVER and -1 or math.max(at - now, 0)
end

-- Leases members, of which those are fresh that have no permit yet. Answers nil, or the refusal: then none of these has.
local function lease(members, fresh)
  local taken = #fresh / 2
  if taken > 0 then
    local left = call('DECRBY', key, taken)
    if type(left) == 'table' then
      return left
    end
    free = left
  end
  local set = call('ZADD', timeouts, unpack(members))
  if type(set) ~= 'table' then
    local refused = expire_with(key, timeouts)
    local given = refused and taken > 0 and give_back(key, timeouts, fresh, true)
    return type(given) == 'table' and given or refused
  end
  if taken > 0 and type(call('DECRBY', key, -taken)) == 'table' then
    return {err = 'HOLDFAST ' .. taken .. ' permits were taken and could not be given back, add them by hand: ' .. key}
  end
  return set
end

-- Answers nil: they are leased; or why not.
local function acquire()
  local till, members, fresh = now + tonumber(ARGV[1]), {}, {}
  for i = 1, #ARGV[2], ID do
    local id = sub(ARGV[2], i, i + ID - 1)
    local score = call('ZSCORE', timeouts, id)
    if type(score) == 'table' then
      return score
    end
    members[#members + 1] = math.max(tonumber(score or 0), till) -- a copy that comes late lowers none
    members[#members + 1] = id
    if not score then
      fresh[#fresh + 1] = till
      fresh[#fresh + 1] = id
    end
  end
  if #fresh > 0 and free < #fresh / 2 then
    return nearest()
  end
  return lease(members, fresh)
end

free = call('GET', key)
if type(free) == 'table' then
  return free
elseif not free then
  return {now, 0, 1, -1}
end
free = count_of(free)
if not free then
  return {now, 0, 1, -3}
end
local collected = collect()
if type(collected) == 'table' then
  return collected
end
local why = acquire()
if collected and free > 0 then
  tell(ARGV[5], key, free)
end
if why then
  return {now, 0, 1, why}
end
return {now, 1}
