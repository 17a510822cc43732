-- semaphorerelease: gives permits back, and tells the waiters how many are free. A request is one of two: to give so
-- many; or to give back what a request to take took, which nobody here wants. One that took nothing takes nothing later
-- either, when a copy of it comes late.
--
-- KEYS     semaphores, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  says nothing here: the message is how many are free
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then request, n, request, n, ...: the request for the next n keys. '<engine>:<number>:<permits>'
--          gives permits, '<engine>:<number>' gives back what that took
-- returns  {now, released, i, v, i, v, ...} where a key that is not named was given back and heard
--          by nobody, and v is: > 0 given back, heard by so many; -1 it took nothing; -2 given back, but publish was
--          refused; or the error of this key alone.
-- cost     hget, hset, pexpire, incrby, publish
local call, match = redis.pcall, string.match
local time = redis.call('TIME')
local publish = ARGV[1]
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- needs: requests

local function channel(key)
  if string.find(key, '{', 1, true) then
    return 'redisson_sc:' .. key
  end
  return 'redisson_sc:{' .. key .. '}'
end

local function give(key, what)
  local notes = notes_of(key)
  local who, request, permits = match(what, '^([^:]*):(%d+):?(%d*)$')
  local said = request .. ' 0'
  if permits ~= '' then
    who, said = who .. ':given', request
  end
  local note = call('HGET', notes, who)
  if type(note) == 'table' then
    return note
  end
  local last, took = match(note or '', '^(%d+) ?(%d*)$')
  local over = last and tonumber(last) >= tonumber(request)
  if permits == '' and last == request and (tonumber(took) or 0) > 0 then
    permits = took
  elseif permits == '' then
    return not over and keep(notes, who, said, note) or -1
  elseif over then
    return 0
  end
  local failed = keep(notes, who, said, note)
  if failed then
    return failed
  end
  local free = call('INCRBY', key, permits)
  if type(free) == 'table' then
    forget(notes, who, note)
    return free
  elseif free < 1 then -- nobody can take any
    return 0
  end
  local heard = call(publish, channel(key), string.format('%.0f', free))
  return type(heard) == 'table' and -2 or heard
end

-- needs: each
return each_key(now, 3, give)
