-- releaseone: release for one key: the same, without what only several keys need. It says no time.
--
-- KEYS[1]  lock key
-- ARGV[1]  publish command: PUBLISH or SPUBLISH; '': nobody is told
-- ARGV[2]  channel
-- ARGV[3]  message
-- ARGV[4]  field: the owner id
-- returns  >= 0 released, heard by so many; -1 not ours, nothing changed; -2 released, but publish was
--          refused; or the error.
-- cost     hdel, publish
local call = redis.pcall
local v = call('HDEL', KEYS[1], ARGV[4])
if v == 0 then
  return -1
elseif v ~= 1 then
  return v
elseif ARGV[1] == '' then
  return 0
end
v = call(ARGV[1], ARGV[2], ARGV[3])
if type(v) == 'table' then
  return -2
end
return v
