-- fairrelease: gives back every key that its field still holds. If a waiter that the caller names is next
-- in the queue it has the lock at once, with the lease it asks for; otherwise whoever is next is told. A
-- field that holds nothing leaves the queue.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4]  how many waiters follow at the end of ARGV that may have a lock next
-- ARGV[5]  grace in ms, and
-- ARGV[6]  Redisson's fairLockWaitTimeout in ms, as in fair
-- ARGV[7+] those keys, then field, n, field, n, ...: the field of the next n keys; then i, field, lease in
--          ms, ...: a waiter of the caller's for the i-th key
-- returns  as release; <= -10: passed on to the waiter whose number, without the leading 0, is -v - 10
-- cost     hdel, lindex; where somebody waits six commands more and publish; passed on: five more, and no publish
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local publish, message, heirs, alive = ARGV[1], ARGV[2], {}, {}
for h = #ARGV - 3 * tonumber(ARGV[4]) + 1, #ARGV, 3 do
  heirs[ARGV[h] .. ' ' .. ARGV[h + 1]] = ARGV[h + 2]
  alive[ARGV[h]] = ARGV[h + 1]
end
local grace, place = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Where somebody waits: made when the first key needs it.
local released_with, left_with
local function open()
-- needs: fairqueue

  -- pass gives the lock to the head of the queue; nil: it cannot be.
  local function pass(first, lease)
    local number = tonumber(string.match(first, ':0(%d+)$') or nil)
    if not number or call('HSET', lock, first, 1) ~= 1 then
      return nil
    end
    if call('PEXPIRE', lock, lease) ~= 1 then
      must('HDEL', lock, first)
      return nil
    end
    try(drop, first) -- refused or not: it is passed on, and a place that nobody asks for ends
    return -number - 10
  end

  local function next_one(i)
    local first = tidy(nil, alive[tostring(i)], true)
    if not first then
      return 0
    end
    local lease = heirs[i .. ' ' .. first]
    if lease and lifts > 0 and must('EXISTS', lock) == 0 then
      local passed = pass(first, lease)
      if passed then
        return passed
      end
    end
    return tell(first, message)
  end

  released_with = function(i, key, its_tag, first)
    name(key, its_tag)
    local done, v = try(next_one, i)
    if not done then -- it is given back all the same, and whoever was next may be it still
      return tell(first, message)
    end
    return v
  end

  local function leave(first, field)
    local stood = drop(field)
    local head = tidy()
    if must('EXISTS', lock) == 0 then
      if head and (head ~= first or stood == 0) then -- who stood nowhere had the lock, which has expired
        tell(head, message)
      elseif head then
        nudge(head)
      end
    end
    return -1
  end

  left_with = function(key, its_tag, first, field)
    name(key, its_tag)
    local _, v = try(leave, first, field)
    return v
  end
end

local function leave(key, field, i)
  local v = call('HDEL', key, field)
  if type(v) == 'table' then
    return v
  end
  local tag = key
  if not find(key, '{', 1, true) then
    tag = '{' .. key .. '}'
  end
  local first = call('LINDEX', 'redisson_lock_queue:' .. tag, 0)
  if v == 1 and type(first) ~= 'string' then -- nobody waits, or the queue may not be read
    return 0
  elseif type(first) == 'table' then
    return first
  end
  if not released_with then
    open()
  end
  if v == 1 then
    return released_with(i, key, tag, first)
  end
  return left_with(key, tag, first, field)
end

-- needs: each
return each_key(now, 6, leave)
