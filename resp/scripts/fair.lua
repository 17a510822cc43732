-- fair: takes every key that is free and whose queue is empty or headed by the caller; elsewhere the
-- caller gets, or keeps, its place in the queue.
--
-- KEYS     lock keys, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  lease in ms
-- ARGV[2]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[3]  '1': wait in the queue; '0': do not
-- ARGV[4]  grace in ms: how long a waiter that does not ask again keeps its place
-- ARGV[5]  Redisson's fairLockWaitTimeout in ms: what one of Redisson's is taken to wait that nobody of ours saw come
-- ARGV[6]  publish command: PUBLISH or SPUBLISH
-- ARGV[7]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[8+] those keys, then field, n, field, n, ...: the field of the next n keys
-- returns  as acquire; what remains of a busy one is the holder's, or of the head's place. Behind a busy key i, and what
--          remains, follow -i and since when the caller stands in its queue, in µs: that is the order of those of ours
-- cost     free and nobody waits: exists, lindex, hset, pexpire; who waits and asks again: thirteen commands, and a
--          pass over the queue each half second
local call, find = redis.pcall, string.find
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
if now > tonumber(ARGV[2]) then
  return {now}
end
local lease, waits, grace, place, publish = ARGV[1], ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local out, granted = {now, 0}, 0

local function grant(key, field)
  local set = call('HSET', key, field, 1)
  if type(set) == 'table' then
    return set
  end
  local ttl = call('PEXPIRE', key, lease)
  if ttl == 1 then
    return nil
  end
  if call('HDEL', key, field) ~= 1 then
    return {err = 'HOLDFAST key without expiry could not be undone, delete it by hand: ' .. key}
  end
  return ttl
end

-- Where somebody waits, or will: made when the first key needs it.
local queued
local function open()
-- needs: fairqueue
  local here_since -- when the caller came to where it stands in the queue, in µs; nil: it does not, or nobody knows

  local function again()
    local left = must('PTTL', lock)
    if left < tonumber(lease) then
      must('PEXPIRE', lock, lease)
    end
    return nil
  end

  -- latest is a time at which nobody of ours has come yet: now, unless a clock was set back.
  local function latest()
    if #must('ZRANGEBYSCORE', asked, ms(micros), '+inf', 'LIMIT', 0, 1) == 0 then
      return micros
    end
    local last_one = must('ZRANGEBYSCORE', asked, '-inf', '+inf', 'WITHSCORES', 'LIMIT', must('ZCARD', asked) - 1, 1)
    return tonumber(last_one[2]) + 1
  end

  -- stand puts the caller into the queue: behind whoever is there, or where it stood before Redisson took it out.
  local function stand(field, since)
    local at = since and tonumber(must('ZSCORE', heard, field) or since / 1000)
    must('ZADD', heard, ms(now), field)
    keep(heard, KEPT)
    local till, before = now + grace, nil
    if since then
      local prev
      local all = page()
      lifts = lifts - #all
      for _, m in ipairs(all) do
        local t = ours(m) and came(m)
        if not t or t > since then
          before = m
          break
        end
        prev = m
      end
      if prev then
        till = score(prev) or till
      else -- the base of those behind is what it was when it was taken out
        till = note('base') or till
        local more = till - at - grace
        if more > 0 or more == 0 and at == note('stood') then -- others had it lifted since then, for those behind them only
          till = math.min(at, note('front') or at)
        end
      end
    else
      local tail = must('LINDEX', queue, -1)
      if not tail then
        must('PEXPIRE', notes, 0) -- that deletes it: what it says is over
      elseif not ours(tail) then
        local known, front, edge, all = false, note('front'), must('HGET', notes, 'edge'), page()
        for _, m in ipairs(all) do
          known = known or ours(m) -- then the base is that of those who are here
        end
        for _, m in ipairs(known and {} or all) do
          if m == edge and front and not known then -- it has stood here ever since one of ours did: b is what it was
            if score(m) ~= note('score') then -- or it was served and has come again: then b is what it was, or later
              front = math.min(front, note('older') or front, note('left') or (note('base') or now) - grace)
            end
            must('HMSET', notes, 'base', ms(front), 'front', ms(front), 'edge', tail)
            keep(notes, KEPT)
            known = true
          end
        end
        if not known then
          must('HMSET', notes, 'base', '', 'front', '', 'edge', '')
          keep(notes, KEPT)
        end
      end
      till = tail and score(tail) or till
      must('ZADD', asked, ms(latest()), field)
      keep(asked, KEPT)
    end
    if before then
      must('LINSERT', queue, 'BEFORE', before, field)
    else
      must('RPUSH', queue, field)
    end
    must('ZADD', timeouts, ms(till), field)
    local b = note('base')
    if since or not b or low(b) then
      lift()
    end
  end

  -- enqueue is stand; who cannot have a whole place has none.
  local function enqueue(field, since)
    if since and lifts <= 0 or short then -- its old place, or who stands there, is looked for by the next question
      later = true
      return
    end
    local done, refusal = try(stand, field, since)
    if not done then
      local undone, more = try(drop, field)
      error({refusal = undone and refusal or more}, 0)
    end
  end

  -- The caller's place, and that it was heard of.
  local function hear(field)
    local at = whereabouts(field)
    here_since = came(field)
    if not at then
      if must('ZSCORE', timeouts, field) then -- the queue was lost
        must('ZREM', timeouts, field)
      end
      enqueue(field, here_since)
      here_since = came(field)
      return
    end
    if not here_since and at < PAGE then -- when each has come was lost
      adopt(false)
      here_since = came(field)
    end
    if not score(field) then -- the scores were lost
      local prev = at > 0 and must('LINDEX', queue, at - 1)
      must('ZADD', timeouts, ms(prev and score(prev) or now + grace), field)
    end
    if must('ZADD', heard, ms(now), field) == 1 then
      keep(heard, KEPT)
    end
    local b = note('base')
    if not b or low(b) then
      lift()
    end
  end

  -- How long the place of the head of a free lock is kept.
  local function left(first)
    local asked = ours(first) and must('ZSCORE', heard, first)
    local till = asked and tonumber(asked) + grace or score(first) or now
    return math.max(1, till - now)
  end

  local function ask(there, head, field)
    here_since = nil
    local first = tidy(field, field)
    if there == 1 and must('HEXISTS', lock, field) == 1 then
      return again()
    end
    if untouched then
      return 1
    end
    if waits and there == 0 and not whereabouts(field) then
      local stood = came(field)
      if stood then -- it stood in front of all who are here now, but for those of ours that came before it
        enqueue(field, stood)
        first = must('LINDEX', queue, 0)
      end
    end
    if there == 0 and first == field and lifts <= 0 then -- whoever is the last of ours moves those behind
      return 1
    end
    if there == 0 and (not first or first == field) then
      local failed = grant(lock, field)
      if not failed and first then
        try(drop, field) -- refused or not: it is granted, and a place that nobody asks for ends
      end
      return failed
    end
    if waits then
      hear(field)
    end
    if later then
      return 1
    end
    if there == 1 then
      return must('PTTL', lock)
    end
    if first == head then
      nudge(first)
    else -- who was told to the one before it
      tell(first, '0')
    end
    return left(first)
  end

  queued = function(key, its_tag, there, head, field)
    name(key, its_tag)
    local done, v = try(ask, there, head, field)
    return v, done and here_since
  end
end

local function take(key, field)
  local there = call('EXISTS', key)
  if type(there) == 'table' then
    return there
  end
  if there == 1 then
    local mode = call('HEXISTS', key, 'mode')
    if mode == 1 then
      return -3
    elseif mode ~= 0 then
      return mode
    end
  end
  local tag = key
  if not find(key, '{', 1, true) then
    tag = '{' .. key .. '}'
  end
  local first = call('LINDEX', 'redisson_lock_queue:' .. tag, 0)
  if type(first) == 'table' then
    return first
  end
  if first or there == 1 then
    if not queued then
      open()
    end
    return queued(key, tag, there, first, field)
  end
  return grant(key, field)
end

local keys, skip, n = KEYS, 0, #KEYS
if n == 0 then
  keys, skip, n = ARGV, 7, tonumber(ARGV[7])
end
local at, left, field = 8 + tonumber(ARGV[7]), 0, nil
for i = 1, n do
  if left == 0 then
    field, left, at = ARGV[at], tonumber(ARGV[at + 1]), at + 2
  end
  left = left - 1
  local v, since = take(keys[skip + i], field)
  if v == nil then
    granted = granted + 1
  else
    out[#out + 1] = i
    out[#out + 1] = v
    if since then
      out[#out + 1] = -i
      out[#out + 1] = since
    end
  end
end
out[2] = granted
return out
