-- groupcount: sets how often an owner has its values, and until when. It carries what is wanted, never a step.
--
-- KEYS[1]  the group
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id and the values
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  wanted hold count
-- ARGV[5]  '1': they are kept for the lease or longer; '2': for the lease or shorter
-- returns  {now} when the not-after has passed; else {now, code, 0} with code 2 done, -1 not all values are the owner's:
--          nothing was changed. Or the error.
-- cost     hmget of each value twice, pttl, pexpire, hset of two fields each
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- needs: group
local key, lease = KEYS[1], tonumber(ARGV[1])
local owner, values = parts(ARGV[2])
local owners, tills = holders(key, values)
if owners.err then
  return owners
elseif not has_all(owner, owners, tills, now) then
  return {now, -1, 0}
end
local kept = keep(key, lease)
if type(kept) == 'table' then
  return kept
end
local till, set = ARGV[5] == '2' and math.min or math.max, {}
for i, value in ipairs(values) do
  set[#set + 1] = till_of(value, owner)
  set[#set + 1] = till(tills[i], now + lease)
  set[#set + 1] = count_of(value, owner)
  set[#set + 1] = ARGV[4]
end
local done = redis.pcall('HSET', key, unpack(set))
if type(done) == 'table' then
  return done
end
return {now, 2, 0}
