-- What is counted has no owner, so nothing that stands there says whether a request was carried out. So each engine's
-- last request is noted: its number, which rises, and what it took. Asked again it changes nothing, nor does a
-- copy that comes late: its number is lower than the one that is noted. So a request is over before its engine sends
-- the next of its kind: answered, or given back.
--
-- A note is written before the count is changed: of the two it is the one that can be undone whatever is refused.
local KEPT = 3600000 -- ms: for longer than any engine asks again without an answer

-- Where the requests for a key are noted.
local function notes_of(key)
  if string.find(key, '{', 1, true) then
    return key .. ':counted_requests'
  end
  return '{' .. key .. '}:counted_requests'
end

-- forget makes the note what it was before. False: it was none and cannot be deleted. It is then one of no request.
local function forget(notes, who, before)
  local call = redis.pcall
  if not before and type(call('HDEL', notes, who)) ~= 'table' then
    return true
  end
  call('HSET', notes, who, before or '0 0') -- refused or not: it was allowed a moment ago
  return before
end

-- keep notes what is being done, and ends with nil; or with the refusal, when the note is what it was before.
local function keep(notes, who, said, before)
  local call = redis.pcall
  local noted = call('HSET', notes, who, said)
  if type(noted) == 'table' then
    return noted
  end
  local kept = call('PEXPIRE', notes, KEPT)
  if type(kept) == 'table' and not forget(notes, who, before) then
    return {err = 'HOLDFAST notes without expiry could not be undone, delete them by hand: ' .. notes}
  end
  return type(kept) == 'table' and kept or nil
end
