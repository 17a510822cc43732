-- renew_each calls raise for every key of a renewal, with the field that ARGV names for it, and answers {now, renewed, i, v,
-- ...}: what came of those keys for which that is not nil. ARGV[3] says how many keys follow it: 0 where KEYS has them.
-- The fields stand behind them as renew.lua has it.
local function renew_each(now, raise)
  local keys, skip, n = KEYS, 0, #KEYS
  if n == 0 then
    keys, skip, n = ARGV, 3, tonumber(ARGV[3])
  end
  local out, renewed = {now, 0}, 0
  local at, left, field = 4 + tonumber(ARGV[3]), 0, nil
  local each = #ARGV - at + 1 == n
  for i = 1, n do
    if each then
      field, at = ARGV[at], at + 1
    elseif left == 0 then
      field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
    end
    left = left - 1
    local v = raise(keys[skip + i], field)
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
