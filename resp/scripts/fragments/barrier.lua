-- A barrier is one string, so each change of it is one write, which may be refused but not half done:
--   barrier <generation> <parties> <arrived> <broken: 0 or 1> <forgotten> <generation>,<generation>,...
--   <engine> <number> <until> <party>=<generation> <party>=<generation> ...
-- In the first line: the generation that gathers, for how many, how many have come, whether it is broken; then
-- generations that were broken and reset, and the latest that is not listed any more. In each further line: an
-- engine, its last request, until when it is waited for (ms), and its parties by the generation that each is of.
local KEPT, LISTED, LONGEST, SPARE = 3600000, 32, 1048576, 65536
local LATE = 60000 -- ms: for longer than a copy of a request may be on its way

local function whole(n)
  return string.format('%.0f', n)
end

-- read returns what stands there; or nil, and the error or -3.
local function read(key)
  local text = redis.pcall('GET', key)
  if type(text) == 'table' then
    return nil, text
  end
  local b = {generation = 0, parties = 0, arrived = 0, broken = 0, forgotten = 0, ended = {}, engines = {}, text = text}
  if not text then
    return b
  end
  local numbers, ended, lines = string.match(text, '^barrier (%d+ %d+ %d+ [01] %d+) ([%d,]*)(.*)$')
  if not numbers or #text > LONGEST then
    return nil, -3
  end
  local head = {}
  for one in string.gmatch(numbers, '%d+') do
    head[#head + 1] = tonumber(one)
  end
  b.generation, b.parties, b.arrived, b.broken, b.forgotten = head[1], head[2], head[3], head[4], head[5]
  for one in string.gmatch(ended, '%d+') do
    b.ended[#b.ended + 1] = tonumber(one)
  end
  for who, number, til, ids in string.gmatch(lines, '\n([^ \n]+) (%d+) (%d+)([^\n]*)') do
    local e = {who = who, number = tonumber(number), til = tonumber(til), ids = {}, of = {}}
    for id, of in string.gmatch(ids, ' (%d+)=(%d+)') do
      e.ids[#e.ids + 1] = not e.of[id] and id or nil
      e.of[id] = tonumber(of)
    end
    b.engines[#b.engines + 1] = e
  end
  return b
end

-- save writes it, for an hour, and returns the error or nil.
local function save(key, b)
  local ended, lines = {}, {}
  for i, one in ipairs(b.ended) do
    ended[i] = whole(one)
  end
  for _, e in ipairs(b.engines) do
    lines[#lines + 1] = '\n' .. e.who .. ' ' .. whole(e.number) .. ' ' .. whole(e.til)
    for _, id in ipairs(e.ids) do
      lines[#lines + 1] = ' ' .. id .. '=' .. whole(e.of[id])
    end
  end
  local head = {'barrier', whole(b.generation), whole(b.parties), whole(b.arrived), b.broken, whole(b.forgotten)}
  local text = table.concat(head, ' ') .. ' ' .. table.concat(ended, ',') .. table.concat(lines)
  if #text > LONGEST then -- nobody would read it
    return {err = 'HOLDFAST too many parties came to the barrier within their lease: ' .. key}
  end
  local done = redis.pcall('SET', key, text, 'PX', KEPT)
  return done.err and done or nil
end

-- next_generation begins one: its number is above all before it, also if the barrier was lost meanwhile.
local function next_generation(b, micros)
  b.generation, b.arrived, b.broken = math.max(b.generation + 1, micros), 0, 0
end

-- breaks breaks the generation that gathers, and says whether that is news.
local function breaks(b)
  local news = b.broken == 0
  b.broken, b.arrived = 1, 0
  return news
end

-- overdue breaks it where an engine that has parties in it was not heard of in time, and says whether it did. What such
-- an engine may still ask for is kept, unless so many have gone that each change would take long.
local function overdue(b, now)
  local news, engines = false, {}
  for _, e in ipairs(b.engines) do
    if e.til <= now then
      local ids = {}
      for _, id in ipairs(e.ids) do
        if e.of[id] ~= b.generation then
          ids[#ids + 1] = id
        else
          e.of[id] = nil
          news = breaks(b) or news
        end
      end
      e.ids = ids
    end
    if e.til > now or #e.ids > 0 and e.til + (#b.text <= SPARE and KEPT or LATE) > now then
      engines[#engines + 1] = e
    end
  end
  b.engines = engines
  return news
end

-- engine_of finds an engine's line, or makes it.
local function engine_of(b, who)
  for _, e in ipairs(b.engines) do
    if e.who == who then
      return e
    end
  end
  local e = {who = who, number = 0, til = 0, ids = {}, of = {}}
  b.engines[#b.engines + 1] = e
  return e
end

-- tell tells who waits that a generation is over. Refused or not: they look by themselves.
local function tell(publish, key)
  local tag = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
  return redis.pcall(publish, 'holdfast_barrier:' .. tag, '0')
end
