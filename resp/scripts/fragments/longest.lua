-- The longest remaining time of those who read under a key, most at least; nil: not known. A command with two
-- keys tells what is gone from what is on the other side of a slot on its way: there it is refused.
local function longest(key, tag, most)
  local call = redis.pcall
  local fields = call('HGETALL', key)
  if fields.err then
    return nil
  end
  for f = 1, #fields, 2 do
    local name, count = fields[f], tonumber(fields[f + 1])
    if name ~= 'mode' and count and not string.find(name, ':write', -6, true) then
      if not (count <= 1000) then -- nobody enters so often: it would keep the server busy
        return nil
      end
      for hold = count, 1, -1 do
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
