-- readrenew: as renew, for read holds: the hold's own expiry is raised, too. Never touches another
-- holder's, never lowers one, never writes over a value of another type.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  '1': PEXPIRE knows GT
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then the field of each key
-- returns  {now, renewed, i, v, i, v, ...} where a key that is not named was renewed, and v is
--          -1 not ours, or the error of this key alone.
-- cost     hexists, pexpire (without GT: pttl on top), set
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

-- The read hold's own expiry, made again where it has run out. Answers nil, or the error.
local function mark(key, field)
  local hold = ':' .. field .. ':rwlock_timeout:1'
  if string.find(key, '{', 1, true) then
    hold = key .. hold
  else
    hold = '{' .. key .. '}' .. hold
  end
  local left = call('PTTL', hold)
  if type(left) == 'table' or left >= wanted then
    return type(left) == 'table' and left or nil
  end
  local set = ''
  if left == -2 then
    set = call('SET', hold, '1', 'PX', lease)
  elseif left == -1 then -- then it may be anything
    set = call('GET', hold)
  end
  if type(set) == 'string' then
    set = call('PEXPIRE', hold, lease)
  end
  if type(set) == 'table' and set.err then
    return set
  end
  return nil
end

local keys, skip, n, fields = KEYS, 0, #KEYS, 3 + tonumber(ARGV[3])
if n == 0 then
  keys, skip, n = ARGV, 3, tonumber(ARGV[3])
end
for i = 1, n do
  local key = keys[skip + i]
  local v = call('HEXISTS', key, ARGV[fields + i])
  if v == 1 then
    v = raise(key)
    if type(v) ~= 'table' then
      v = mark(key, ARGV[fields + i])
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
