-- writerelease: gives back the write hold that each field has on its key, and tells the waiters. Where
-- its owner still reads, the lock becomes a read lock that lives as long as the longest of those who read,
-- and other readers are told, too. It is the readers' turn then: the note of a writer that waits is taken away.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  as release. A field that writes nothing takes its engine's note back.
-- cost     hlen, hdel, get (del, too, where a writer waits), del, publish; where somebody reads, too: hset for
--          del, pttl, and a look at every read hold. Where one cannot be looked at, as in a slot on its way,
--          the lock keeps the time it has.
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local publish, message = ARGV[1], ARGV[2]
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- needs: longest

-- Gives the lock to those who read beside the writer that has left: for as long as they ask for, and not at
-- all if none of them lives.
local function downgrade(key, tag, size)
  local most = longest(key, tag, 0, size)
  if most and most <= 0 then
    return call('DEL', key)
  end
  local done = call('HSET', key, 'mode', 'read')
  if type(done) == 'table' or not most then
    return done
  end
  local left = call('PTTL', key)
  if type(left) ~= 'table' and most < left then
    call('PEXPIRE', key, most) -- refused or not: it lives too long, but not for ever
  end
  return done
end

local function leave(key, field)
  local size = call('HLEN', key)
  if type(size) == 'table' then
    return size
  end
  local v = call('HDEL', key, field)
  if type(v) == 'table' then
    return v
  end
  local tag = key
  if not find(key, '{', 1, true) then
    tag = '{' .. key .. '}'
  end
  local note, channel = tag .. ':rwlock_writer', 'redisson_rwlock:' .. tag
  local noted = call('GET', note)
  if v == 0 then
    if noted == string.match(field, '^[^:]*') then
      call('DEL', note) -- refused or not: the note ends by itself
      call(publish, channel, message) -- refused or not: who waits polls
    end
    return -1
  end
  if type(noted) == 'string' then -- anything else is no note
    call('DEL', note) -- refused or not: the note ends by itself
  end
  local done
  if size == 2 then
    done = call('DEL', key)
  else
    done = downgrade(key, tag, size - 1)
  end
  if type(done) == 'table' then
    return done
  end
  local heard = call(publish, channel, message)
  if type(heard) == 'table' then
    return -2
  end
  return heard
end

-- needs: each
return each_key(now, 3, leave)
