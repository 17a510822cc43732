-- readrelease: gives back the read hold that each field has on its key, and tells the waiters when it
-- was the last.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  as release; a hold that was not the last one was heard by nobody
-- cost     hlen, hdel, del, publish; not the last: pttl on top, and where this hold was the longest a look
--          at every other read hold, for the hash is to live as long as the longest of them, and not
--          at all if only such are left whose holders are dead. Where one cannot be looked at, as in a
--          slot on its way, the hash keeps the time it has.
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local publish, message = ARGV[1], ARGV[2]
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Deletes the lock and tells the waiters: how many heard it, -2 publish was refused, or the error.
local function free(key, tag, hold)
  local gone = call('DEL', key, hold)
  if type(gone) == 'table' then -- in a slot on its way, if they are not together
    gone = call('DEL', key)
    call('DEL', hold) -- refused or not: the mark ends by itself
  end
  if type(gone) == 'table' then
    return gone
  end
  local heard = call(publish, 'redisson_rwlock:' .. tag, message)
  if type(heard) == 'table' then
    return -2
  end
  return heard
end

-- needs: longest

local function leave(key, field)
  local size = call('HLEN', key)
  if type(size) == 'table' then
    return size
  end
  local v = call('HDEL', key, field)
  if v == 0 then
    return -1
  elseif v ~= 1 then
    return v
  end
  local tag = key
  if not find(key, '{', 1, true) then
    tag = '{' .. key .. '}'
  end
  local hold = tag .. ':' .. field .. ':rwlock_timeout:1'
  if size == 2 then
    return free(key, tag, hold)
  end
  local own = call('PTTL', hold)
  call('DEL', hold) -- refused or not: the mark ends by itself
  if call('HGET', key, 'mode') == 'write' then
    return 0
  end
  local left = call('PTTL', key)
  if type(own) ~= 'table' and type(left) ~= 'table' and (own < 0 or own + 5 >= left) then
    local most = longest(key, tag, 0, size - 1)
    if not most then
      return 0
    elseif most <= 0 then
      return free(key, tag, hold)
    elseif most < left then
      call('PEXPIRE', key, most) -- refused or not: it lives too long, but not for ever
    end
  end
  return 0
end

-- needs: each
return each_key(now, 3, leave)
