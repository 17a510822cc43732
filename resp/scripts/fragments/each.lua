-- each_key calls give for every key of a release, with what ARGV names for it, and answers {now, given, i, v, ...}: what
-- came of those keys for which that is not 0. ARGV[3] says how many keys follow ARGV[last]: 0 where KEYS has them.
local function each_key(now, last, give)
  local keys, skip, n = KEYS, 0, #KEYS
  if n == 0 then
    keys, skip, n = ARGV, last, tonumber(ARGV[3])
  end
  local at, left, what = last + 1 + tonumber(ARGV[3]), 0, nil
  local out, given = {now, 0}, 0
  for i = 1, n do
    if left == 0 then
      what, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
    end
    left = left - 1
    local v = give(keys[skip + i], what, i)
    if type(v) == 'number' and v ~= -1 then
      given = given + 1
    end
    if v ~= 0 then
      out[#out + 1] = i
      out[#out + 1] = v
    end
  end
  out[2] = given
  return out
end
