-- force: takes a lock away from whoever holds it, and tells the waiters.
--
-- KEYS[1]  lock key
-- ARGV[1]  publish command: PUBLISH or SPUBLISH; '': nobody is told
-- ARGV[2]  message
-- ARGV[3]  channel
-- ARGV[4]  '' a lock that one holds; 'read', 'write': a read-write lock, only if it is in that mode;
--          'fair': a lock whose next waiter is told, on a channel of its own
-- returns  1 released, 0 there was none, -3 another kind of lock
-- cost     hlen, hget, del, publish
local held = redis.pcall('HLEN', KEYS[1])
if type(held) == 'table' then
  return held
end
if held == 0 then
  return 0
end
local mode, wanted = redis.call('HGET', KEYS[1], 'mode'), ARGV[4]
local shared = wanted == 'read' or wanted == 'write'
if shared ~= (mode ~= false) then
  return -3
end
if shared and mode ~= wanted then
  return 0
end
redis.call('DEL', KEYS[1])
local tag = KEYS[1]
if not string.find(tag, '{', 1, true) then
  tag = '{' .. tag .. '}'
end
local channel = ARGV[3]
if shared then
  redis.pcall('DEL', tag .. ':rwlock_writer')
elseif wanted == 'fair' then
  local first = redis.pcall('LINDEX', 'redisson_lock_queue:' .. tag, 0)
  if type(first) ~= 'string' then
    return 1
  end
  channel = channel .. ':' .. first
end
if ARGV[1] ~= '' then
  redis.pcall(ARGV[1], channel, ARGV[2])
end
return 1
