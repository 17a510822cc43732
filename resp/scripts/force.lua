-- force: takes a lock away from whoever holds it, and tells the waiters.
--
-- KEYS[1]  lock key
-- ARGV[1]  publish command: PUBLISH or SPUBLISH; '': nobody is told
-- ARGV[2]  message
-- ARGV[3]  channel
-- ARGV[4]  '' a lock that one holds; 'read', 'write': a read-write lock, only if it is in that mode;
--          'fair': a lock whose next waiter is told, on a channel of its own
-- ARGV[5]  not-after: the server's time in ms after which this call must change nothing
-- returns  {now} when the not-after has passed; else {now, code} with code 1 released, 0 there was none,
--          -3 another kind of lock
-- cost     hlen, hget, del, publish
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then
  return {now}
end
local held = redis.pcall('HLEN', KEYS[1])
if type(held) == 'table' then
  return held
end
if held == 0 then
  return {now, 0}
end
local mode, wanted = redis.call('HGET', KEYS[1], 'mode'), ARGV[4]
local shared = wanted == 'read' or wanted == 'write'
if shared ~= (mode ~= false) then
  return {now, -3}
end
if shared and mode ~= wanted then
  return {now, 0}
end
redis.call('DEL', KEYS[1])
local tag = KEYS[1]
if not string.find(tag, '{', 1, true) then
  tag = '{' .. tag .. '}'
end
local channel = ARGV[3]
if shared then
  local note = tag .. ':rwlock_writer'
  if type(redis.pcall('GET', note)) == 'string' then
    redis.pcall('DEL', note) -- refused or not: the note ends by itself
  end
elseif wanted == 'fair' then
  local first = redis.pcall('LINDEX', 'redisson_lock_queue:' .. tag, 0)
  if type(first) ~= 'string' then
    return {now, 1}
  end
  channel = channel .. ':' .. first
end
if ARGV[1] ~= '' then
  redis.pcall(ARGV[1], channel, ARGV[2]) -- refused or not: who waits polls
end
return {now, 1}
