-- renew: raises the TTL of every key that its field still holds to the lease. Never lowers one,
-- never makes a key.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  '1': PEXPIRE knows GT
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then the field of each key; or, where that is less: field, n, field, n, ...: the field of the
--          next n keys
-- returns  {now, renewed, i, v, i, v, ...} where a key that is not named was renewed, and v is
--          -1 not ours, or the error of this key alone.
-- cost     hexists, pexpire (without GT: pttl on top)
local call = redis.pcall
local time = redis.call('TIME')
local lease, greater = ARGV[1], ARGV[2] == '1'
local wanted = tonumber(lease)
local out, renewed = {time[1] * 1000 + math.floor(time[2] / 1000), 0}, 0

-- Answers 1, or an error. GT says 0 for "no TTL" too: then there is one to set.
local function raise(key)
  if greater then
    local set = call('PEXPIRE', key, lease, 'GT')
    if set ~= 0 then
      return set
    end
  end
  local left = call('PTTL', key)
  if type(left) == 'table' or left >= wanted then
    return left
  end
  return call('PEXPIRE', key, lease)
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 3, tonumber(ARGV[3])
end
local at, left, field = 4 + tonumber(ARGV[3]), 0, nil
local each = #ARGV - at + 1 == n
for i = 1, n do
  if each then
    field, at = ARGV[at], at + 1
  elseif left == 0 then
    field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  end
  left = left - 1
  local key = keys[skip + i]
  local v = call('HEXISTS', key, field)
  if v == 1 then
    v = raise(key)
    if type(v) ~= 'table' then
      v = nil
    end
  elseif v == 0 then
    v = -1
  end
  if v == nil then
    renewed = renewed + 1
  else
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = renewed
return out
