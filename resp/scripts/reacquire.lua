-- reacquire: asks again for one key under an owner id that may hold it already. Sending it any
-- number of times counts once: it carries the wanted hold count, never a step.
--
-- KEYS[1]  lock key
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  wanted hold count; with '0', what is ours keeps the count it has
-- ARGV[5]  '0': whether it is free or ours; '1': only if the lock is ours (re-entry); '2': the same, and the TTL is to be no longer than the
--          lease, or than those ask for who read under the key, too
-- returns  {now} when the not-after has passed; else {now, code, v} with code 1 granted,
--          2 already ours (the TTL is the lease or more, with '2' the lease or less), 0 busy (v: remaining ms, -1 none),
--          -1 gone (it was to be ours and is not), -3 another kind of lock.
-- cost     hexists twice, then hset and pexpire, or pttl; to lower, hlen and hexists, and a look at every read
--          hold there is. Where one cannot be looked at, as in a slot on its way, nothing is lowered.
-- A count that changes is written after a PEXPIRE: that command is never refused for lack of memory,
-- and after it nothing of the script is.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local key, lease, field, wanted = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4])
local must, lower = ARGV[5] ~= '0', ARGV[5] == '2'
local call = redis.pcall

-- needs: longest

-- What the TTL is to be. Nobody else's is lowered: a read-write lock's hash lives for all who hold it.
local function expiry(left)
  local least = tonumber(lease)
  if left < 0 or not lower then
    return math.max(left, least)
  elseif left <= least then
    return left
  end
  local fields, mode = call('HLEN', key), call('HEXISTS', key, 'mode')
  if type(fields) == 'table' or type(mode) == 'table' then -- it may not be asked
    return left
  elseif fields - mode > 1 then
    local tag = key
    if not string.find(key, '{', 1, true) then
      tag = '{' .. key .. '}'
    end
    least = mode == 1 and longest(key, tag, least, fields) or left
  end
  return math.min(left, least)
end

local mine = call('HEXISTS', key, field)
if type(mine) == 'table' then
  return mine
end
if mine == 1 then
  local left = call('PTTL', key)
  if type(left) == 'table' then
    return left
  end
  local count = call('HGET', key, field)
  if type(count) == 'table' then
    return count
  end
  local changes = must and tonumber(count) ~= wanted
  local ttl = expiry(left)
  if changes or left ~= ttl then
    local set = call('PEXPIRE', key, string.format('%.0f', ttl))
    if type(set) == 'table' then
      return set
    end
  end
  if changes then
    local set = call('HSET', key, field, wanted)
    if type(set) == 'table' then
      return set
    elseif set == 1 then -- in its last millisecond PEXPIRE has deleted the key: what HSET makes anew has no expiry
      local undone = call('HDEL', key, field)
      return type(undone) == 'table' and undone or {now, -1, 0}
    end
  end
  return {now, 2, 0}
end
local there = call('EXISTS', key)
if type(there) == 'table' then
  return there
end
if there == 1 then
  if call('HEXISTS', key, 'mode') == 1 then
    return {now, -3, 0}
  end
  if must then
    return {now, -1, 0}
  end
  local left = call('PTTL', key)
  if type(left) == 'table' then
    return left
  end
  return {now, 0, left}
end
if must then
  return {now, -1, 0}
end
local set = call('HSET', key, field, 1)
if type(set) == 'table' then
  return set
end
local ttl = call('PEXPIRE', key, lease)
if ttl == 1 then
  return {now, 1, 0}
end
if call('HDEL', key, field) ~= 1 then
  return {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}
end
return ttl
