-- latch: says whether a latch is open, or has been since it was last seen to be closed.
--
-- KEYS[1]  the count; there is none where the latch is open
-- ARGV[1], ARGV[2] and ARGV[4] say nothing here
-- ARGV[3]  not-after: the server's time in ms after which nobody waits for this answer
-- ARGV[5]  who asks saw it closed, when it had last been opened at this mark; -1: they have not seen it yet
-- returns  {now} when the not-after has passed; else {now, code, mark}, mark: when it was last opened, in µs, 0: never, as
--          far as is noted. code: 1 it is open; 2 it was opened since then, and is closed again; 0 it is closed; 3 it is
--          gone since then, and was not opened by one of ours; 4 it was deleted since then by one of ours, and may have been
--          set again; -3 what stands there is no number. Or the error.
-- cost     get, hget; pexpire where something is noted
local call = redis.pcall
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- needs: requests
-- needs: count
-- needs: marks
local notes, known = notes_of(KEYS[1]), tonumber(ARGV[5])
local count = call('GET', KEYS[1])
if type(count) == 'table' then
  return count
end
local note = call('HGET', notes, 'ended')
if type(note) == 'table' then
  return note
end
local left = count_of(count or '0')
if not left then
  return {now, -3, 0}
end
if note then
  call('PEXPIRE', notes, KEPT) -- refused or not: it has an expiry
end
local opened, deleted = marks_of(note)
local open = left <= 0
if known >= 0 and opened > known then
  return {now, open and 1 or 2, opened}
elseif known >= 0 and deleted > known then
  return {now, 4, opened}
elseif not open then
  return {now, 0, math.max(opened, deleted)}
elseif known < 0 or count then
  return {now, 1, opened}
end
return {now, 3, opened}
