-- Each permit that somebody has stands in a sorted set beside the number of those that are free: its id, and until when it
-- is leased. Who finds one that has expired may give it back: it is free by then.
local ID = 16 -- bytes of an id

-- Where those stand.
local function timeouts_of(key)
  if string.find(key, '{', 1, true) then
    return key .. ':timeout'
  end
  return '{' .. key .. '}:timeout'
end

-- Tells the waiters how many are free. Answers who heard that.
local function tell(publish, key, free)
  local channel = string.find(key, '{', 1, true) and 'redisson_sc:' .. key or 'redisson_sc:{' .. key .. '}'
  return redis.pcall(publish, channel, string.format('%.0f', free))
end

-- The set lives for as long as the number. Answers nil, or the refusal.
local function expire_with(key, timeouts)
  local left = redis.pcall('PTTL', key)
  if type(left) == 'number' and left > 0 then
    left = redis.pcall('PEXPIRE', timeouts, left)
  end
  return type(left) == 'table' and left or nil
end

-- Gives permits back: score, id, score, id, ..., all or none. Answers how many are free then, or the refusal. ZREM
-- frees under memory pressure, where INCRBY alone would be refused. Of a semaphore that is gone (not there) none is free.
local function give_back(key, timeouts, members, there)
  local call, ids = redis.pcall, {}
  for i = 2, #members, 2 do
    ids[#ids + 1] = members[i]
  end
  local gone = call('ZREM', timeouts, unpack(ids))
  if type(gone) == 'table' or not there then
    return type(gone) == 'table' and gone or 0
  end
  local free = call('INCRBY', key, gone)
  if type(free) ~= 'table' then
    return free
  end
  local undone = call('ZADD', timeouts, unpack(members))
  if type(undone) == 'table' then
    return {err = 'HOLDFAST ' .. gone .. ' permits were given back and not counted, add them by hand: ' .. key}
  end
  return expire_with(key, timeouts) or free
end
