-- group: takes values of a group under an owner id, all or none.
--
-- KEYS[1]  the group
-- ARGV[1]  lease in ms
-- ARGV[2]  field: the owner id and the values. What stands under it already keeps its count
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  says nothing here
-- returns  {now} when the not-after has passed; else {now, 1} granted, or {now, 0, 1, v} with v: > 0 busy, remaining ms of
--          the value that is held longest; -3 another kind of lock. Or the error.
-- cost     hmget of each value, then hset of three fields each, pttl, pexpire. Where a value is or was held: hmget of
--          those; hdel of what others have left
local call = redis.pcall
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
elseif owners[#values + 1] then
  return {now, 0, 1, -3}
end

local busy = 0
for i, till in ipairs(tills) do
  if owners[i] ~= owner then
    busy = math.max(busy, till)
  end
end
if busy > now then
  return {now, 0, 1, math.min(busy - now, 9007199254740992)}
end

local set, fresh, left = {}, {}, {}
local function put(field, value)
  set[#set + 1] = field
  set[#set + 1] = value
end
for i, value in ipairs(values) do
  local till, count = till_of(value, owner), count_of(value, owner)
  if owners[i] == owner and tills[i] > now then -- of an earlier copy
    put(till, math.max(tills[i], now + lease))
  else
    put(value, owner)
    put(till, now + lease)
    put(count, 1)
    fresh[#fresh + 1] = value
    fresh[#fresh + 1] = till
    fresh[#fresh + 1] = count
    if owners[i] and owners[i] ~= owner then
      left[#left + 1] = till_of(value, owners[i])
      left[#left + 1] = count_of(value, owners[i])
    end
  end
end
local done = call('HSET', key, unpack(set))
if type(done) == 'table' then
  return done
end
local kept = keep(key, lease)
if type(kept) == 'table' then
  local undone = #fresh > 0 and call('HDEL', key, unpack(fresh))
  if type(undone) == 'table' then
    return {err = 'HOLDFAST values without expiry could not be undone, delete them by hand: ' .. key}
  end
  return kept
end
if #left > 0 then
  call('HDEL', key, unpack(left)) -- refused or not: it says nothing about who has the values now
end
return {now, 1}
