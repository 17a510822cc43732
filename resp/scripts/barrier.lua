-- barrier: says which parties of an engine wait at a barrier, and what has become of each. Those that are new arrive; one
-- that is no longer named has left, and breaks its generation. So a request that is sent again changes nothing, and a
-- copy that comes late is known by its number.
--
-- KEYS[1]  the barrier
-- ARGV[1]  lease ms: for how long the engine is waited for from now on
-- ARGV[2]  '<engine>:<number>:<party>,<party>,...', a party: '<id>/<parties>', and '+' behind it if it was told to wait
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[4]  says nothing here
-- ARGV[5]  publish command: PUBLISH or SPUBLISH
-- returns  {now} when the not-after has passed; else {now, 0, ms, verdicts}. ms: when the first of the other engines is
--          overdue, -1: no other has parties here. verdicts: a letter for each party: w it waits, p all have arrived,
--          b its generation is broken, n the others wait for another number of parties, u nobody knows any more;
--          none at all: a later request was here before this one. {now, -3, 0, ''}: no barrier stands there. Or the error.
-- cost     get, set: of all parties; publish where a generation ends
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- needs: barrier
local key = KEYS[1]
local b, failed = read(key)
if not b then
  return failed == -3 and {now, -3, 0, ''} or failed
end
local ends = overdue(b, now)
local who, number, list = string.match(ARGV[2], '^([^:]*):(%d+):(.*)$')
local e = engine_of(b, who)
if tonumber(number) < e.number then
  return {now, 0, -1, ''}
end
local ids, wanted, waited = {}, {}, {}
for id, parties, told in string.gmatch(list, '(%d+)/(%d+)(%+?)') do
  if not wanted[id] then
    ids[#ids + 1], wanted[id], waited[id] = id, tonumber(parties), told == '+'
  end
end
for _, id in ipairs(e.ids) do
  if not wanted[id] and e.of[id] == b.generation and breaks(b) then
    ends = true
  end
end

-- arrive lets one in, and returns its generation; or what it is told.
local function arrive(id)
  if waited[id] or b.broken == 1 then -- what it waited in is lost; or it is to be reset first
    return nil, 'b'
  elseif b.arrived > 0 and b.parties ~= wanted[id] then
    return nil, 'n'
  elseif b.arrived == 0 then
    b.parties = wanted[id]
  end
  if b.generation == 0 then
    next_generation(b, micros)
  end
  local generation = b.generation
  b.arrived = b.arrived + 1
  if b.arrived >= b.parties then
    next_generation(b, micros)
    ends = true
  end
  return generation
end

local of, kept, verdicts = {}, {}, {}
for i, id in ipairs(ids) do
  of[id] = e.of[id]
  if not of[id] then
    of[id], verdicts[i] = arrive(id)
  end
  if of[id] then
    kept[#kept + 1] = id
  end
end
e.number, e.til, e.ids, e.of = tonumber(number), now + tonumber(ARGV[1]), kept, of
local broken = {}
for _, generation in ipairs(b.ended) do
  broken[generation] = true
end
for i, id in ipairs(ids) do
  local generation = of[id]
  if verdicts[i] then -- it is told already
  elseif generation == b.generation then
    verdicts[i] = b.broken == 1 and 'b' or 'w'
  elseif broken[generation] then
    verdicts[i] = 'b'
  else
    verdicts[i] = generation <= b.forgotten and 'u' or 'p'
  end
end
local first = -1
for _, other in ipairs(b.engines) do
  for _, id in ipairs(other.ids) do
    if other ~= e and other.of[id] == b.generation and (first < 0 or other.til - now < first) then
      first = other.til - now
    end
  end
end
failed = save(key, b)
if failed then
  return failed
end
if ends then
  tell(ARGV[5], key)
end
return {now, 0, first, table.concat(verdicts)}
