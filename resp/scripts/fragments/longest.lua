-- needs: contents

-- How many read holds a call looks at: whoever has more keeps its time. A field may say any number.
local HOLDS, LOOKS = 1000, 10000 -- of one field, and of all keys of this call
local NAME = 256 -- bytes of a field: each look spells it out
local looks = LOOKS

-- The longest remaining time of those who read under a key of so many fields, most at least; nil: not known. A command
-- with two keys tells what is gone from what is on the other side of a slot on its way: there it is refused.
local function longest(key, tag, most, size)
  local call = redis.pcall
  if type(size) == 'table' or size > looks then
    return nil
  end
  local fields = contents(key, size)
  if not fields or fields.err then
    return nil
  end
  looks = looks - size
  for f = 1, #fields, 2 do
    local name, count = fields[f], tonumber(fields[f + 1])
    if name ~= 'mode' and count and not string.find(name, ':write', -6, true) then
      if not (count <= HOLDS) or count > looks or #name > NAME then -- nobody enters so often: it keeps the server busy
        return nil
      end
      looks = looks - math.max(0, count)
      for hold = math.min(count, HOLDS), 1, -1 do
        local mark = tag .. ':' .. name .. ':rwlock_timeout:' .. hold
        local left = call('PTTL', mark)
        if type(left) == 'table' or left == -2 and type(call('EXISTS', key, mark)) == 'table' then
          return nil
        end
        most = math.max(most, left)
      end
    end
  end
  return most
end
