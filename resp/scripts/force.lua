-- force: takes a lock away from whoever holds it, and tells the waiters.
--
-- KEYS[1]  lock key
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  channel
-- returns  1 released, 0 there was none, -3 another kind of lock
-- cost     hlen, hexists, del, publish
local held = redis.pcall('HLEN', KEYS[1])
if type(held) == 'table' then
  return held
end
if held == 0 then
  return 0
end
if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
  return -3
end
redis.call('DEL', KEYS[1])
redis.pcall(ARGV[1], ARGV[3], ARGV[2])
return 1
