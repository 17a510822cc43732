-- The queue of a fair lock, as fair and fairrelease keep it, and Redisson's scripts beside them.
--
-- Redisson's part   list redisson_lock_queue:{n}: who waits, the next one first
--                   zset redisson_lock_timeout:{n}: until when a place is kept. Redisson gives the score of the place in
--                   front and its own wait W, and takes W off everybody when the place is taken or given up
-- ours              zset {n}:fair_heard: when each waiter of ours has asked last
--                   zset {n}:fair_asked: when each has come, in µs: no two at the same time, and in the order of the queue
--                   hash {n}:fair_notes; '' is nothing:
--                     base         b, see below
--                     front, edge  what b is for those of Redisson's before the first of ours, and the last of them
--                     left, score  when the last of ours left, and the score that edge had then
--                     older        b of those that stood before the first of ours then
--                     since        a time at which nobody of Redisson's stood here with an older b
--                     java         somebody of Redisson's was seen
--                     told, at     who was told last that the lock is free, and when
-- A place of ours is worth nothing: W = 0, and so it has the score of the place in front of it. All from the first of
-- ours on have the score b + the W of Redisson's in front of them + their own, where b is the time of the last lift
-- and the grace. So whoever is next in the end has b and more, and is taken out by nobody as long as one of ours asks.
-- A script of ours takes out those of ours that have not asked for the grace, wherever they stand.

-- How many places a call goes through, and how many it takes out: who has more to do comes again.
local PAGE, OUT = 1000, 100
local LONG = 10000 -- places: in a longer queue nobody is looked for in the list, which would take as long as that is
local KEPT, REMEMBERED = 60000, 600000 -- ms that a key of ours lives from the last lift, and from the last one's leaving
local SLACK, NUDGE = 500, 1000         -- ms after which b is raised, and after which a head is told once more
local LATE = 3000                      -- ms after which b is raised by a call that has much to do
local AGE = 1000000                    -- µs by which those of whom it was lost are taken to have come before the others: room for those behind the page
local SOON = 2000                      -- ms before the end of a place of Redisson's in which it is asked for

local lock, tag, queue, timeouts, heard, asked, notes
local budget = OUT                        -- left for the keys of this call
local lifts, adopts = 10 * PAGE, 5 * PAGE -- how many places they may still lift, or go through otherwise, and adopt
local SHARE, room = 131072, 1048576       -- bytes of names longer than anybody's that a key may read, and all of them
local mine = SHARE                        -- left of its share for this key
local later, untouched = false, false     -- whether the next question is to go on with this key; and this one leaves it
local short = false                       -- keys before this one have used up the room: of this one nothing can be read

local function name(key, its_tag)
  room, mine = room - math.min(SHARE, SHARE - mine), SHARE
  lock, tag, later, untouched, short = key, its_tag, false, false, room <= 0
  if short then
    budget, lifts, adopts = 0, 0, 0
  end
  queue, timeouts = 'redisson_lock_queue:' .. tag, 'redisson_lock_timeout:' .. tag
  heard, asked, notes = tag .. ':fair_heard', tag .. ':fair_asked', tag .. ':fair_notes'
end

local function ms(n)
  return string.format('%.0f', n)
end

-- What is refused ends the work on this key.
local function must(...)
  local v = call(...)
  if type(v) == 'table' and v.err then
    error({refusal = v}, 0)
  end
  return v
end

-- try calls f; where that was refused it returns false and the refusal.
local function try(f, ...)
  local done, v = pcall(f, ...)
  if done then
    return true, v
  end
  if type(v) == 'table' then
    return false, v.refusal
  end
  return false, {err = 'ERR ' .. tostring(v)}
end

-- Redisson's numbers have no leading 0, but for 0 itself.
local function ours(field)
  return find(field, ':0%d') ~= nil
end

-- Until when a place is kept; nil: that is nowhere. A command with two keys is refused where the slot is on its way and
-- they are not together.
local function score(field)
  local till = must('ZSCORE', timeouts, field)
  if till then
    return tonumber(till)
  end
  must('EXISTS', queue, timeouts)
  return nil
end

local function note(what)
  return tonumber(must('HGET', notes, what) or nil)
end

-- When one of ours has come; nil: that is not known any more.
local function came(field)
  return tonumber(must('ZSCORE', asked, field) or nil)
end

-- A key of ours has an end, or is none.
local function keep(key, life)
  local kept = call('PEXPIRE', key, life)
  if type(kept) == 'table' then
    local gone = call('DEL', key)
    if type(gone) == 'table' then
      kept = gone
    end
    error({refusal = kept}, 0)
  end
end

-- whereabouts is where one of ours stands; false: nowhere. Behind a long queue its score says that it stands, at LONG.
local function whereabouts(field)
  local at = must('LPOS', queue, field, 'MAXLEN', LONG)
  if not at and must('LINDEX', queue, LONG) and must('ZSCORE', timeouts, field) then
    return LONG
  end
  return at
end

-- Tells a waiter that the lock is free: how many heard it; -2: publish was refused.
local function tell(field, text)
  local heard_by = call(publish, 'redisson_lock__channel:' .. tag .. ':' .. field, text)
  if type(heard_by) == 'table' then
    return -2
  end
  return heard_by
end

-- nudge tells the head of a free lock, but not with every question: nobody else has if the lock has expired, or
-- Redisson took somebody out.
local function nudge(field)
  if must('HGET', notes, 'told') == field and now - (note('at') or 0) <= NUDGE then
    return
  end
  must('HMSET', notes, 'told', field, 'at', ms(now))
  if must('PTTL', notes) < KEPT then
    keep(notes, KEPT)
  end
  tell(field, '0')
end

-- page lists the first of the queue, PAGE at the most, and says whether they are all. A name may be as long as somebody
-- likes, so they are read a line at a time.
local function page()
  local LINE, NAME, all = 25, 256, {}
  for from = 0, PAGE - 1, LINE do
    local line = mine >= 0 and not short and must('LRANGE', queue, from, from + LINE - 1) or {}
    for _, m in ipairs(line) do
      all[#all + 1] = m
      mine = mine - math.max(0, #m - NAME)
    end
    if #line < LINE then
      return all, mine >= 0 and not short
    end
  end
  return all, false
end

-- spent: who has more to do comes again.
local function spent()
  return budget <= 0 or lifts <= 0
end

-- low: b is to be raised. Where the keys of this call have long queues most of what it may lift is for what is
-- much too low: who asks slowly would raise the first ones again with each question, and never come to the last.
local function low(b)
  return b < now + grace - (lifts > 8 * PAGE and SLACK or LATE)
end

-- lift makes b the time and the grace. Where the keys of this call have long queues the last are left for the next question,
-- which comes in a moment.
local function lift()
  if lifts <= 0 then
    later = true
    return
  end
  local members, f = page(), nil
  lifts = lifts - #members
  for i, m in ipairs(members) do
    if ours(m) then
      f = i
      break
    end
  end
  if not f then -- ours stand behind the page, if anywhere
    keep(heard, KEPT)
    keep(asked, KEPT)
    return
  end
  local target, b, delta = now + grace, note('base'), nil
  if f == 1 then -- the head has b, whatever Redisson took off it or left on it
    delta = target - (score(members[1]) or 0)
  elseif b then
    delta = target - b
    if must('HGET', notes, 'edge') ~= members[f - 1] then
      must('HMSET', notes, 'front', ms(math.min(note('front') or b, b)), 'edge', members[f - 1], 'java', '1')
    end
  else -- those in front came when nobody of ours was here: how much of their scores they will take off is a guess
    local first, prev = score(members[1]) or now, score(members[f - 1]) or now
    local guess, since = math.min(first - place, now), note('since')
    if first - place > now + math.max(0, must('PTTL', lock)) + 1000 then -- it waits for longer than place
      guess = now - math.min(first - now, place)
    end
    if since and since > guess then
      guess = math.min(since, now)
    end
    delta = target + prev - guess - (score(members[f]) or 0)
    must('HMSET', notes, 'front', ms(guess), 'edge', members[f - 1], 'java', '1')
  end
  if delta ~= 0 then
    local by, least = ms(delta), nil
    for i = f, #members do
      local s = tonumber(must('ZINCRBY', timeouts, by, members[i]))
      if least and s < least then -- its score was lost, or it comes into the page
        must('ZADD', timeouts, ms(least), members[i])
      else
        least = s
      end
    end
  end
  if f == 1 then
    must('HMSET', notes, 'base', ms(target), 'front', '', 'edge', '')
  else
    must('HMSET', notes, 'base', ms(target))
  end
  keep(notes, KEPT)
  keep(heard, KEPT)
  keep(asked, KEPT)
end

-- When one of ours has asked last. What an outage has put there in its stead is not known of it: then when it has come.
local function asked_last(field)
  local at = tonumber(must('ZSCORE', heard, field))
  if at ~= note('stood') then
    return at
  end
  return (came(field) or at * 1000) / 1000
end

-- behind lists who stands behind one of ours that is the last of ours: nil if it is not.
local function behind(field)
  if must('ZCARD', heard) > 1 or not must('ZSCORE', heard, field) then
    return nil
  end
  local all, whole = page()
  local rest, seen = {}, false
  for _, m in ipairs(all) do
    if seen then
      rest[#rest + 1] = m
    elseif m == field then
      seen = true
    end
  end
  if not seen then -- Redisson has taken it out: it was the head, and others of ours may have left since then
    rest = all
    rest.oldest = asked_last(field)
  end
  rest.alone = whole and #rest + (seen and 1 or 0) == #all
  return rest
end

-- last: nobody of ours is here any more. Who stood behind gets what Redisson gives the first of a queue. Where
-- Redisson's clients were seen the notes stay a while: they say what whoever of ours comes next could not know.
local function last(rest)
  local java = #rest > 0 or not rest.alone or must('HEXISTS', notes, 'java') == 1
  if not java then
    must('PEXPIRE', notes, 0) -- that deletes it
    return
  end
  local since = now
  if #rest > 0 then
    local b = note('base') or now
    local by = math.max(0, now + math.max(0, must('PTTL', lock)) - b)
    if by > 0 then
      for _, m in ipairs(rest) do
        if score(m) then
          must('ZINCRBY', timeouts, ms(by), m)
        end
      end
    end
    -- Who stood behind one that Redisson has taken out has b, who has come since then may have less: a queue of Redisson's
    -- alone begins with what its clock and the lease say.
    b = math.min(b, rest.oldest or b) + by
    since = math.min(now, b)
    local older = not rest.alone and note('front') -- of those that stood in front of ours
    must('HMSET', notes, 'front', ms(b), 'edge', rest[#rest], 'score', ms(score(rest[#rest]) or 0), 'older', older and ms(older) or '')
  elseif rest.alone then
    must('HMSET', notes, 'front', '', 'edge', '')
  end
  must('HMSET', notes, 'base', '', 'left', ms(now), 'java', '1')
  if rest.alone then
    must('HMSET', notes, 'since', ms(since))
  end
  keep(notes, REMEMBERED)
end

-- drop takes one out of the queue.
local function drop(field)
  local rest = behind(field)
  local stood = must('LREM', queue, 1, field)
  must('ZREM', timeouts, field)
  if must('ZREM', heard, field) == 1 then
    must('ZREM', asked, field)
    if rest then
      lifts = lifts - 2 * #rest
      last(rest)
    end
  end
  return stood
end

-- Of ours in the queue that nobody has heard of, because the key was lost: from now on they are. And of whom it is not
-- known when they came, they came before all of whom it is, or right behind the one in front. Where the keys of this
-- call have long queues the last are left for the next question, each as a whole: behind a head that was heard of nobody
-- looks for more, so one that asks is not heard of before.
local function adopt(head_asks)
  if adopts <= 0 then
    later, untouched = true, head_asks
    return
  end
  local members, times, comings, before = page(), {}, {}, {}
  adopts = adopts - #members
  local first = must('ZRANGEBYSCORE', asked, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local at, front = ms(now), nil
  for _, m in ipairs(members) do
    if ours(m) then
      times[#times + 1], times[#times + 2] = at, m
      local known = first[2] and came(m)
      if known then
        front = known
      elseif front then
        front = front + 1
        comings[#comings + 1], comings[#comings + 2] = ms(front), m
      else
        before[#before + 1] = m
      end
    end
  end
  if #times == 0 then
    return
  end
  local till = math.min(micros, tonumber(first[2]) or micros) - AGE - #before
  for i, m in ipairs(before) do
    comings[#comings + 1], comings[#comings + 2] = ms(till + i), m
  end
  must('ZADD', heard, 'NX', unpack(times))
  keep(heard, KEPT)
  if #comings > 0 then
    must('ZADD', asked, 'NX', unpack(comings))
  end
  keep(asked, KEPT)
end

-- stood: one of ours that is known to be alive has not asked for the grace either. Then the server stood still, or the
-- line, and nobody is dead for that: from now on all are heard of. Once in a while only, so that who asks too seldom
-- keeps no dead.
local function stood(alive, asks)
  local last_asked = alive and must('ZSCORE', heard, alive)
  if not last_asked or tonumber(last_asked) > now - grace or now - (note('stood') or 0) < KEPT then
    return false
  end
  if not asks and must('EXISTS', notes) == 0 then
    return false
  end
  if lifts <= 0 then -- who asks stays unheard of, too: that is how the next question knows it
    untouched = true
    return true
  end
  must('HMSET', notes, 'stood', ms(now))
  if must('PTTL', notes) < KEPT then
    keep(notes, KEPT)
  end
  local times, at = {}, ms(now)
  for _, m in ipairs(must('ZRANGEBYSCORE', heard, '-inf', ms(now - grace), 'LIMIT', 0, PAGE)) do
    times[#times + 1], times[#times + 2] = at, m
  end
  lifts = lifts - #times / 2
  must('ZADD', heard, unpack(times))
  return true
end

-- tidy takes out who is dead: of ours anywhere but for who asks, of Redisson's at the head. It puts a head of ours right
-- and answers who it is; false: nobody. In a long queue those of ours are taken out at the head, too: elsewhere each
-- would be looked for. Where there are more than OUT the next question goes on: until then the head is one that is dead.
-- Where the slot is on its way only who asks may make a key that is not here.
-- alive is one of ours that is alive, as far as the caller knows one; released: the lock was given back just now.
local function tidy(asks, alive, released)
  local dead = must('ZRANGEBYSCORE', heard, '-inf', ms(now - grace), 'LIMIT', 0, OUT)
  local spared = false
  if #dead > 0 then -- since the server stood still all have had less than the grace to ask again
    local ago = now - (note('stood') or 0)
    spared = ago >= 0 and ago <= grace or stood(alive, asks)
  end
  if #dead > 0 and not spared and not must('LINDEX', queue, LONG) then
    for _, m in ipairs(dead) do
      if m ~= asks and not spent() then
        budget = budget - 1
        drop(m)
      end
    end
  end
  for _ = 1, OUT do
    local first = must('LINDEX', queue, 0)
    if not first then
      return false
    end
    local till, asked_last = score(first), ours(first) and must('ZSCORE', heard, first)
    local gone = asked_last and not spared and first ~= asks and tonumber(asked_last) <= now - grace
    if asked_last and not gone then
      if (not till or low(till) or till > now + grace + SLACK) and (asks or must('EXISTS', notes) == 1) then
        lift()
      end
      return first
    end
    if ours(first) and not gone and till and till > now then
      if asks then
        adopt(first == asks)
        lift()
      end
      return first
    end
    if not gone and till and till > now + SOON or spent() then
      return first
    end
    if not till and not ours(first) then -- its score was lost: what no time ends would be the head for ever
      must('ZADD', timeouts, ms(now + grace), first)
      return first
    end
    if not ours(first) then
      -- One of Redisson's that listens is alive: one of ours may say so for it as long as the lock is held, and when it is told.
      local listens = call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB',
        'redisson_lock__channel:' .. tag .. ':' .. first)
      if not listens.err and listens[2] > 0 and (released or must('EXISTS', lock) == 1) then
        must('ZADD', timeouts, ms(now + grace), first)
        return first
      end
      if till > now then
        return first
      end
    end
    budget = budget - 1
    drop(first)
  end
  return must('LINDEX', queue, 0)
end
