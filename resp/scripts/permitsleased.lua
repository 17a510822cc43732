-- permitsleased: which permits are leased, in the order in which they expire: the first 10000, or a megabyte of them.
--
-- KEYS[1]  the set of leased permits
-- returns  {server's time in ms, id, score, id, score, ...}; a score is the time until which the permit is leased
-- cost     zrange for each two permits
local MOST, PAGE, BYTES = 9999, 2, 1048576 -- the last place; places of a page: each may be as large as somebody likes
local time = redis.call('TIME')
local out, bytes = {time[1] * 1000 + math.floor(time[2] / 1000)}, 0
for from = 0, MOST, PAGE do
  local leased = redis.pcall('ZRANGE', KEYS[1], from, from + PAGE - 1, 'WITHSCORES')
  if leased.err then
    return leased
  end
  for i = 1, #leased, 2 do
    bytes = bytes + #leased[i] -- a reply that is too large ends its connection
    if bytes > BYTES then
      return out
    end
    out[#out + 1] = leased[i]
    out[#out + 1] = leased[i + 1]
  end
  if #leased < 2 * PAGE then
    break
  end
end
return out
