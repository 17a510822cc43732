-- readrenew: as renew, for read holds: the hold's own expiry is raised, too. Never touches another
-- holder's, never lowers one, never writes over a value of another type.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  '1': PEXPIRE knows GT
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then the field of each key; or, where that is less: field, n, field, n, ...: the field of the
--          next n keys
-- returns  {now, renewed, i, v, i, v, ...} where a key that is not named was renewed, and v is
--          -1 not ours, or the error of this key alone.
-- cost     hexists, pexpire (without GT: pttl on top), set
local call = redis.pcall
local time = redis.call('TIME')
local lease, greater = ARGV[1], ARGV[2] == '1'
local wanted = tonumber(lease)

-- needs: renewed

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

local function renew(key, field)
  local held = call('HEXISTS', key, field)
  if held ~= 1 then
    return held == 0 and -1 or held
  end
  local raised = raise(key)
  if type(raised) == 'table' then
    return raised
  end
  return mark(key, field)
end

return renew_each(time[1] * 1000 + math.floor(time[2] / 1000), renew)
