-- permitsrenew: raises the leases of permits, where all ids of a hold still have one. Never lowers one, never makes one.
--
-- KEYS     the sets of leased permits; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  says nothing here
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then the ids of each key, 16 bytes each; or, where that is less: ids, n, ids, n, ...: the ids of
--          the next n keys
-- returns  {now, renewed, i, v, i, v, ...} where a key that is not named was renewed, and v is
--          -1 not ours, or the error of this key alone.
-- cost     a zscore an id, zadd
local call, sub = redis.pcall, string.sub
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local till = now + tonumber(ARGV[1])

-- needs: permits
-- needs: renewed

-- Answers nil, -1, or the error.
local function raise(timeouts, ids)
  local members = {}
  for i = 1, #ids, ID do
    local id = sub(ids, i, i + ID - 1)
    local score = call('ZSCORE', timeouts, id)
    if type(score) == 'table' then
      return score
    elseif not score or tonumber(score) <= now then
      return -1
    end
    members[#members + 1] = math.max(tonumber(score), till)
    members[#members + 1] = id
  end
  local set = call('ZADD', timeouts, 'XX', unpack(members))
  if type(set) == 'table' and string.find(set.err, 'OOM', 1, true) then -- it needs no memory; behind a command that
    call('ZREM', timeouts, '') -- refused or not: frees nothing, but is a write, none is refused for that
    set = call('ZADD', timeouts, 'XX', unpack(members))
  end
  return type(set) == 'table' and set or nil
end

return renew_each(now, raise)
