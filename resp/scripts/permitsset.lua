-- permitsset: reads and changes how many permits there are, and those of single ids.
--
-- KEYS[1]  how many permits are free
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  what to do: free, leased, total: read how many; set: to so many, if there is nothing; resize: to so many in all;
--          add: so many, or fewer than none; delete; and behind a colon ids, 16 bytes each: give, back, all or none; left,
--          how long one is leased; lease, one anew
-- ARGV[3]  so many
-- ARGV[4]  lease: ms
-- ARGV[5]  not-after: the server's time in ms after which this call must change nothing
-- returns  {now} when the not-after has passed; else {now, code, v}. code: 1 done; 0 there was something (set), nothing
--          (resize, delete), or no permit that is leased by that id (give, left, lease); -3 what stands there is no number.
--          v: how many; add, how many are free then; left, ms, -1 for ever. Or the error.
-- cost     get, and zcard, zcount or a zscore an id; then what changes, and publish
local call, sub = redis.pcall, string.sub
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then
  return {now}
end
-- needs: permits
-- needs: count
local NEVER = 922337203685477 -- ms, of a permit that has no lease
local key, timeouts, many = KEYS[1], timeouts_of(KEYS[1]), tonumber(ARGV[3])
local what = string.match(ARGV[2], '^%a+')
local ids = sub(ARGV[2], #what + 2)
local number = call('GET', key)
local there = number ~= false
if type(number) == 'table' then
  return number
end
number = count_of(number or '0')
if not number then
  return {now, -3, 0}
end

-- Answers what was done, or its refusal, and tells the waiters how many are free then. Refused or not: waiters ask again
-- by themselves.
local function changed(done, v)
  if type(done) == 'table' and done.err then
    return done
  end
  if v and v > 0 then
    tell(ARGV[1], key, v)
  end
  return {now, 1, v or 0}
end

-- The permits of ids, as ZADD takes them; nil: not all are leased; or the error.
local function members()
  local out = {}
  for i = 1, #ids, ID do
    local id = sub(ids, i, i + ID - 1)
    local score = call('ZSCORE', timeouts, id)
    if type(score) == 'table' then
      return score
    elseif not score or tonumber(score) <= now then
      return nil
    end
    out[#out + 1] = score
    out[#out + 1] = id
  end
  return out
end

local done = {}
function done.free()
  local over = call('ZCOUNT', timeouts, '-inf', now)
  return type(over) == 'table' and over or {now, 1, there and number + over or 0}
end

function done.leased()
  local leased = call('ZCOUNT', timeouts, '(' .. string.format('%.0f', now), '+inf')
  return type(leased) == 'table' and leased or {now, 1, leased}
end

function done.total()
  local leased = call('ZCARD', timeouts)
  return type(leased) == 'table' and leased or {now, 1, there and number + leased or 0}
end

-- A semaphore that is made anew has none of what an older one has left. Answers nil, or the refusal.
local function begin()
  local left = not there and call('DEL', timeouts)
  return type(left) == 'table' and left or nil
end

function done.set()
  if there then
    return {now, 0, 0}
  end
  return begin() or changed(call('SET', key, ARGV[3]), many)
end

function done.resize()
  local leased = there and call('ZCARD', timeouts)
  if type(leased) ~= 'number' then
    return leased or {now, 0, 0}
  end
  local free = call('INCRBY', key, many - number - leased)
  return changed(free, free)
end

function done.add()
  local free = begin() or call('INCRBY', key, ARGV[3])
  return changed(free, free)
end

function done.delete()
  local gone = call('DEL', key, timeouts)
  return type(gone) == 'table' and gone or {now, there and 1 or 0, 0}
end

function done.give()
  local all = members()
  if not all or all.err or not there then
    return all and all.err and all or {now, 0, 0}
  end
  local free = give_back(key, timeouts, all, true)
  return changed(free, free)
end

function done.left()
  local one = members()
  if not one or one.err then
    return one or {now, 0, 0}
  end
  local at = tonumber(one[1])
  return {now, 1, at >= NEVER and -1 or at - now}
end

function done.lease()
  local one = members()
  if not one or one.err then
    return one or {now, 0, 0}
  end
  return changed(call('ZADD', timeouts, 'XX', now + tonumber(ARGV[4]), one[2]))
end

return done[what]()
