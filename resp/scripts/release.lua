-- release: gives back every key of KEYS that its field still holds, and tells the waiters.
-- HDEL frees under memory pressure, where HINCRBY would be refused.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH; '': nobody is told
-- ARGV[2]  message
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4]  '': each key is published; 'alone', 'masters': only those that somebody listens to, where the server has no
--          replicas that may have subscribers, or nobody subscribes at them, and no more channels than there are keys
-- ARGV[5+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  {now, released, i, v, i, v, ...} where a key that is not named was released and heard
--          by nobody, and v is: > 0 released, heard by so many; -1 not ours, nothing changed;
--          -2 released, but publish was refused; or the error of this key alone. i = 0: each was published in spite of
--          ARGV[4], and v is: > 0 how many channels there are; -1 who hears is not known here; -2 asking was refused.
-- cost     hdel, publish; with ARGV[4] info twice and pubsub channels for all keys, hdel, publish where heard
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local publish, message = ARGV[1], ARGV[2]
local out, released = {time[1] * 1000 + math.floor(time[2] / 1000), 0}, 0
local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 4, tonumber(ARGV[3])
end
local heard = nil -- the keys that somebody listens to; nil: it is not known, so each is published
if ARGV[4] ~= '' and publish ~= '' then
  local function number(info, what)
    local _, colon = find(info, '\n' .. what .. ':', 1, true)
    return colon and tonumber(string.match(info, '^%d+', colon + 1))
  end
  local channels, patterns, list = 'pubsub_channels', 'pubsub_patterns', 'CHANNELS'
  if publish == 'SPUBLISH' then
    channels, patterns, list = 'pubsubshard_channels', nil, 'SHARDCHANNELS'
  end
  local masters = ARGV[4] == 'masters'
  local replicas, stats = masters or call('INFO', 'replication'), call('INFO', 'stats')
  local v = -1
  if type(replicas) == 'table' or type(stats) == 'table' then
    v = -2
  -- A replica is told by the stream of replication; one that was cut off a while ago is told later, by the backlog.
  elseif (masters or number(replicas, 'connected_slaves') == 0 and number(replicas, 'repl_backlog_active') == 0)
    and (not patterns or number(stats, patterns) == 0) then
    v = number(stats, channels) or -1
  end
  if v >= 0 and v <= n then
    local names = call('PUBSUB', list, 'redisson_lock__channel:*') -- at most n
    if names.err then
      v = -2
    else
      heard = {}
      for _, name in ipairs(names) do -- of a key with a brace, or of one in braces
        heard[string.sub(name, 24)] = true
        heard[string.sub(name, 25, -2)] = true
      end
    end
  end
  if not heard then
    out[3], out[4] = 0, v
  end
end
local at, left, field = 5 + tonumber(ARGV[3]), 0, nil
for i = 1, n do
  if left == 0 then
    field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  end
  left = left - 1
  local key = keys[skip + i]
  local v = call('HDEL', key, field)
  if v == 1 and (publish == '' or heard and not heard[key]) then
    released = released + 1
    v = 0
  elseif v == 1 then
    released = released + 1
    local channel
    if find(key, '{', 1, true) then
      channel = 'redisson_lock__channel:' .. key
    else
      channel = 'redisson_lock__channel:{' .. key .. '}'
    end
    v = call(publish, channel, message)
    if type(v) == 'table' then
      v = -2
    end
  elseif v == 0 then
    v = -1
  end
  if v ~= 0 then
    out[#out + 1] = i
    out[#out + 1] = v
  end
end
out[2] = released
return out
