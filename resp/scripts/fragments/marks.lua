-- When a latch was last opened, and when it was last deleted, is noted as '<opened> <deleted>': marks, in µs. Each new one
-- is above both, whatever the clock says: who has seen the latch closed knows the higher one.
local function marks_of(note)
  local opened, deleted = string.match(note or '', '^(%d+) (%d+)$')
  return count_of(opened or '0') or 0, count_of(deleted or '0') or 0
end

local function mark_after(opened, deleted, micros)
  return math.max(opened + 1, deleted + 1, micros)
end

local function marked(opened, deleted)
  return string.format('%.0f %.0f', opened, deleted)
end

-- Redisson's channel is that of the name in braces: of a key with a hash tag it is in another slot than the key.
local function channel_of(key, tagged)
  if tagged == 'tagged' and string.find(key, '{', 1, true) then
    return 'redisson_countdownlatch__channel__:' .. key
  end
  return 'redisson_countdownlatch__channel__{' .. key .. '}'
end
