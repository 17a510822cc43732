-- latchset: reads, sets and deletes the count of a latch.
--
-- KEYS[1]  the count
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  what to do: get; set: to so many, if there is none; delete
-- ARGV[3]  so many
-- ARGV[4]  says nothing here
-- ARGV[5]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[6]  'tagged': as latchdown
-- returns  {now} when the not-after has passed; else {now, code, v}. code: 1 done; 0 there was one (set), or none (get,
--          delete); -3 what stands there is no number. v: get, the count. Or the error.
-- cost     get, hget; then set and publish, or hset, pexpire, del and publish
local call = redis.pcall
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
if now > tonumber(ARGV[5]) then
  return {now}
end
-- needs: requests
-- needs: count
-- needs: marks
local key, what, notes = KEYS[1], ARGV[2], notes_of(KEYS[1])
local count, ended = call('GET', key), call('HGET', notes, 'ended')
if type(count) == 'table' or type(ended) == 'table' then
  return type(count) == 'table' and count or ended
end
local number = count_of(count or '0')
if not number then
  return {now, -3, 0}
end

-- Who waits looks again.
local function changed()
  call(ARGV[1], channel_of(key, ARGV[6]), '1') -- refused or not: waiters look again by themselves
  return {now, 1, 0}
end

local done
if what == 'get' and count then
  return {now, 1, number}
elseif what == 'set' and not count then
  done = call('SET', key, ARGV[3])
  return done.err and done or changed()
elseif what == 'delete' and count then
  local opened, deleted = marks_of(ended)
  done = keep(notes, 'ended', marked(opened, mark_after(opened, deleted, micros)), ended)
  if done then
    return done
  end
  done = call('DEL', key)
  if type(done) ~= 'table' then
    return changed()
  end
  forget(notes, 'ended', ended)
  return done
end
return {now, 0, 0}
