-- barrierset: reads a barrier, and resets it.
--
-- KEYS[1]  the barrier
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  what to do: waiting, how many wait; broken, whether it is; reset, which breaks the generation that gathers, if
--          any of it has come, and begins the next
-- ARGV[3]  and ARGV[4] say nothing here
-- ARGV[5]  not-after: the server's time in ms after which this call must change nothing
-- returns  {now} when the not-after has passed; else {now, code, v}. code: 1 done; 0 there is none (waiting, broken), or
--          nothing to reset; -3 what stands there is no barrier. v: so many; 1 it is broken. Or the error.
-- cost     get; reset: set: of all parties, publish
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
if now > tonumber(ARGV[5]) then
  return {now}
end
-- needs: barrier
local key, what = KEYS[1], ARGV[2]
local b, failed = read(key)
if not b then
  return failed == -3 and {now, -3, 0} or failed
end
overdue(b, now)
if not b.text or what == 'reset' and b.arrived == 0 and b.broken == 0 then
  return {now, 0, 0}
elseif what == 'waiting' then
  return {now, 1, b.arrived}
elseif what == 'broken' then
  return {now, 1, b.broken}
end
b.ended[#b.ended + 1] = b.generation
if #b.ended > LISTED then
  b.forgotten = table.remove(b.ended, 1)
end
next_generation(b, micros)
failed = save(key, b)
if failed then
  return failed
end
tell(ARGV[1], key)
return {now, 1, 0}
