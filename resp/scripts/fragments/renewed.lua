-- renew_each calls raise for every key of a renewal, with the field that ARGV names for it, and answers {now, renewed, i, v,
-- ...}: what came of those keys for which that is not nil. ARGV[3] says how many keys follow it: 0 where KEYS has them.
local function renew_each(now, raise)
  local keys, skip, n, fields = KEYS, 0, #KEYS, 3 + tonumber(ARGV[3])
  if n == 0 then
    keys, skip, n = ARGV, 3, tonumber(ARGV[3])
  end
  local out, renewed = {now, 0}, 0
  for i = 1, n do
    local v = raise(keys[skip + i], ARGV[fields + i])
    if v == nil then
      renewed = renewed + 1
    else
      out[#out + 1] = i
      out[#out + 1] = v
    end
  end
  out[2] = renewed
  return out
end
