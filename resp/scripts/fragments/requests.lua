-- What is counted has no owner, so nothing that stands there says whether a request was carried out. So each engine's
-- last request is noted: its number, which rises, and what it took. Asked again it changes nothing, nor does a
-- copy that comes late: its number is lower than the one that is noted.
local KEPT = 3600000 -- ms: for longer than any engine asks again without an answer

-- Where the requests for a key are noted.
local function notes_of(key)
  if string.find(key, '{', 1, true) then
    return key .. ':counted_requests'
  end
  return '{' .. key .. '}:counted_requests'
end

-- keep notes what was done, and ends with nil; or with the refusal, when the note is what it was before.
local function keep(notes, who, said, before)
  local call = redis.pcall
  local noted = call('HSET', notes, who, said)
  if type(noted) == 'table' then
    return noted
  end
  local kept = call('PEXPIRE', notes, KEPT)
  if type(kept) ~= 'table' then
    return nil
  end
  local undone = before and call('HSET', notes, who, before) or call('HDEL', notes, who)
  if type(undone) == 'table' then
    return {err = 'HOLDFAST notes without expiry could not be undone, delete them by hand: ' .. notes}
  end
  return kept
end
