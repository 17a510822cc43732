-- groupforce: takes values of a group away from whoever has them, and tells the waiters.
--
-- KEYS[1]  the group
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  message
-- ARGV[3]  channel
-- ARGV[4]  says nothing here
-- ARGV[5]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[6]  the values
-- returns  {now} when the not-after has passed; else {now, code} with code 1 one was held at least, 0 none was,
--          -3 another kind of lock. Or the error.
-- cost     hmget of each value twice, hdel of three fields each, publish
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then
  return {now}
end
-- needs: group
local key, values = KEYS[1], values_in(ARGV[6])
local owners, tills = holders(key, values)
if owners.err then
  return owners
elseif owners[#values + 1] then
  return {now, -3}
end
local gone, held = {}, 0
for i, value in ipairs(values) do
  if owners[i] then
    gone[#gone + 1] = value
    gone[#gone + 1] = till_of(value, owners[i])
    gone[#gone + 1] = count_of(value, owners[i])
    held = tills[i] > now and 1 or held
  end
end
if #gone > 0 then
  local done = redis.pcall('HDEL', key, unpack(gone))
  if type(done) == 'table' then
    return done
  end
  redis.pcall(ARGV[1], ARGV[3], ARGV[2]) -- refused or not: who waits polls
end
return {now, held}
