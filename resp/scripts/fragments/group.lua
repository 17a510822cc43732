-- A lock of several values of one group is that hash's: each value that is held has its owner's id in a field of its own,
-- and beside it, under value:owner, until when, and how often its owner has it. What a field of ours says is the owner id,
-- a NUL and the values, all of them as long: a hash of what they are.
local VALUE = 22 -- characters of a value

local function values_in(all)
  local values = {}
  for i = 1, #all, VALUE do
    values[#values + 1] = string.sub(all, i, i + VALUE - 1)
  end
  return values
end

-- Answers the owner id and the values of a field.
local function parts(field)
  local cut = string.find(field, '\0', 1, true)
  return string.sub(field, 1, cut - 1), values_in(string.sub(field, cut + 1))
end

local function till_of(value, owner) return value .. ':' .. owner .. ':expire_time' end
local function count_of(value, owner) return value .. ':' .. owner .. ':lock_count' end

-- Answers each value's owner id (false: nobody has it) and, behind them, the same of the field that only a read-write lock
-- has; and until when, 0 where there is none. Or the refusal.
local function holders(key, values)
  local fields = {unpack(values)}
  fields[#fields + 1] = 'mode'
  local owners = redis.pcall('HMGET', key, unpack(fields)) -- at most the caller's values
  if owners.err then
    return owners
  end
  local tills, asked, at = {}, {}, {}
  for i, value in ipairs(values) do
    tills[i] = 0
    if owners[i] then
      asked[#asked + 1] = till_of(value, owners[i])
      at[#at + 1] = i
    end
  end
  if #asked == 0 then
    return owners, tills
  end
  local times = redis.pcall('HMGET', key, unpack(asked)) -- at most the caller's values
  if times.err then
    return times
  end
  for j, i in ipairs(at) do
    tills[i] = tonumber(times[j] or '') or 0
  end
  return owners, tills
end

-- Whether an owner has all values now.
local function has_all(owner, owners, tills, now)
  for i, till in ipairs(tills) do
    if owners[i] ~= owner or not (till > now) then -- somebody else may have written what is no number
      return false
    end
  end
  return true
end

-- Lets the hash live for the lease at least. Answers what PEXPIRE does, after which nothing of the script is refused for
-- lack of memory.
local function keep(key, lease)
  local left = redis.pcall('PTTL', key)
  if type(left) == 'table' then
    return left
  end
  return redis.pcall('PEXPIRE', key, string.format('%.0f', math.max(left, lease)))
end
