-- latchdown: counts latches down. One that reaches zero is gone, and who waits is told.
--
-- KEYS     latches, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  'tagged': the channel is in the slot of a key that has a hash tag; else it is Redisson's, which is not
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then request, n, request, n, ...: the request for the next n keys: '<engine>:<number>:<by>'
-- returns  {now, counted, i, v, i, v, ...} where a key that is not named was counted down, or had no count, and was
--          heard by nobody, and v is: > 0 it is open now, heard by so many; -1 what stands there is no number; -2 it is
--          open, but publish was refused; or the error of this key alone.
-- cost     get, hget twice, hset, pexpire, decrby; at zero hset, del, publish in place of that
local call, match = redis.pcall, string.match
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local publish = ARGV[1]
local now = math.floor(micros / 1000)
-- needs: requests
-- needs: count
-- needs: marks

local function down(key, what)
  local notes = notes_of(key)
  local who, request, by = match(what, '^([^:]*):(%d+):(%d+)$')
  who = who .. ':given'
  local note, ended, count = call('HGET', notes, who), call('HGET', notes, 'ended'), call('GET', key)
  for _, read in ipairs({note or 0, ended or 0, count or 0}) do
    if type(read) == 'table' then
      return read
    end
  end
  if tonumber(match(note or '', '^%d+$') or '0') >= tonumber(request) then
    return 0
  end
  local left = count_of(count or '0')
  if not left then
    return -1
  end
  local done = keep(notes, who, request, note)
  if done then
    return done
  elseif not count then -- noted all the same: a copy that comes late does not count a latch down that was set since
    return 0
  end
  local opens = left <= tonumber(by)
  if opens then
    local opened, deleted = marks_of(ended)
    done = call('HSET', notes, 'ended', marked(mark_after(opened, deleted, micros), deleted))
    if type(done) ~= 'table' then
      done = call('DEL', key)
    end
  else
    done = call('DECRBY', key, by)
  end
  if type(done) == 'table' then
    forget(notes, who, note)
    if opens then
      forget(notes, 'ended', ended)
    end
    return done
  elseif not opens then
    return 0
  end
  local heard = call(publish, channel_of(key, ARGV[2]), '0')
  return type(heard) == 'table' and -2 or heard
end

-- needs: each
return each_key(now, 3, down)
