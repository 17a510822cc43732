-- barrierleave: takes parties that have given up out of barriers: the generation that one waits in is broken. One that has
-- not arrived does not arrive later either, when a copy of its request comes late; and where its caller says for how many
-- parties it came, it breaks the generation that gathers for as many, if that began before it left.
--
-- KEYS     barriers, all different; in a cluster none: then they follow in ARGV, of any slots
-- ARGV[1]  publish command: PUBLISH or SPUBLISH
-- ARGV[2]  says nothing here
-- ARGV[3]  how many keys follow in ARGV: 0 where KEYS has them
-- ARGV[4+] those keys, then request, n, request, n, ...: the request for the next n keys: '<engine>:<number>:<party>', and
--          '/<parties>/<ms>' behind it if it was never told to wait: how long ago it left; and '+' if a request has
--          named it, which was here if a later one was
-- returns  {now, left, i, v, i, v, ...} where of a key that is not named the party has left, and nobody was told, and v
--          is: > 0 the generation is broken by it, heard by so many; -1 what stands there is no barrier; -2 it is broken,
--          but publish was refused; or the error of this key alone.
-- cost     get, set: of all parties; publish where it is broken
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
-- needs: barrier
-- needs: each

local function leave(key, what)
  local who, number, party, parties, ago, named = string.match(what, '^([^:]*):(%d+):(%d+)/?(%d*)/?(%d*)(%+?)$')
  local b, failed = read(key)
  if not b then
    return failed == -3 and -1 or failed
  end
  local e, news, ids = engine_of(b, who), false, {}
  -- A copy finds what it has broken broken, or a generation that began later.
  local unheard = tonumber(parties) == b.parties and b.arrived > 0 and b.generation <= micros - tonumber(ago) * 1000
  unheard = unheard and (named == '' or tonumber(number) > e.number)
  e.number = math.max(e.number, tonumber(number))
  for _, id in ipairs(e.ids) do
    if id ~= party then
      ids[#ids + 1] = id
    else
      unheard = false
      news = e.of[id] == b.generation and breaks(b)
    end
  end
  news = unheard and breaks(b) or news
  e.ids = ids
  if #ids == 0 then -- else the engine is waited for as long as before
    e.til = math.max(e.til, now + LATE)
  end
  failed = save(key, b)
  if failed or not news then
    return failed or 0
  end
  local heard = tell(ARGV[1], key)
  return type(heard) == 'table' and -2 or heard
end

return each_key(now, 3, leave)
