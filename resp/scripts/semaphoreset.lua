-- semaphoreset: reads and changes how many permits are free.
--
-- KEYS[1]  how many permits are free
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  what to do: get; set: to so many, if there is nothing; add: so many, or fewer than none; some: add, if there is
--          something; drain: take all; delete
-- ARGV[3]  so many
-- ARGV[4]  set: ms after which it is gone again; 0: it stays
-- ARGV[5]  not-after: the server's time in ms after which this call must change nothing
-- returns  {now} when the not-after has passed; else {now, code, v}. code: 1 done; 0 there was something (set), nothing
--          (get, some, delete) or nothing to take (drain); -3 what stands there is no number. v: get and drain, how many;
--          add, how many are free then. Or the error.
-- cost     get; then set, incrby, decrby or del, and publish
local call = redis.pcall
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[5]) then
  return {now}
end
-- needs: count
local key, what, many = KEYS[1], ARGV[2], ARGV[3]
local free = call('GET', key)
if type(free) == 'table' then
  return free
end
local number = count_of(free or '0')
if not number then
  return {now, -3, 0}
end

-- Waiters are told how many are free, if there are any.
local function told(v)
  if v > 0 then
    local channel = string.find(key, '{', 1, true) and 'redisson_sc:' .. key or 'redisson_sc:{' .. key .. '}'
    call(ARGV[1], channel, string.format('%.0f', v)) -- refused or not: waiters ask again by themselves
  end
  return {now, 1, v}
end

local done
if what == 'set' and not free then
  if ARGV[4] == '0' then
    done = call('SET', key, many)
  else
    done = call('SET', key, many, 'PX', ARGV[4])
  end
  return done.err and done or told(tonumber(many))
elseif what == 'get' and free then
  return {now, 1, number}
elseif what == 'add' or what == 'some' and free then
  done = call('INCRBY', key, many)
  return type(done) == 'table' and done or told(done)
elseif what == 'drain' and number > 0 then
  done = call('DECRBY', key, free)
  return type(done) == 'table' and done or {now, 1, number}
elseif what == 'delete' and free then
  done = call('DEL', key)
  return type(done) == 'table' and done or {now, 1, 0}
end
return {now, 0, 0}
