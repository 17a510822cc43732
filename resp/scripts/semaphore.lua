-- semaphore: takes permits for those who wait, in their order, for as many as there are enough for.
--
-- KEYS[1]  how many permits are free
-- ARGV[1]  says nothing here, as ARGV[4]
-- ARGV[2]  the request: '<engine>:<number>'; or '<engine>.<n>:<number>' while a take of the engine is being given back
-- ARGV[3]  not-after: the server's time in ms after which this call must change nothing
-- ARGV[5+] how many permits each wants
-- returns  {now} when the not-after has passed; else {now, 1, taken}, or {now, 0, 0, 1, v} with v: -1 too few are free
--          for the first; -3 what stands there is no number; or the error
-- cost     hget, get; if there are enough: hset, pexpire, decrby
local call, match = redis.pcall, string.match
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- needs: requests
-- needs: count
local key, notes = KEYS[1], notes_of(KEYS[1])

-- Answers what was taken, or nil and why nothing was.
local function take()
  local who, request = match(ARGV[2], '^([^:]*):(%d+)$')
  local note = call('HGET', notes, who)
  if type(note) == 'table' then
    return nil, note
  end
  local last, took = match(note or '', '^(%d+) (%d+)$')
  took = count_of(took or '0') or 0
  if last == request and took > 0 then
    return took
  elseif last and tonumber(last) >= tonumber(request) then -- a late copy, of what was given back or is over
    return nil, -1
  end
  local free = call('GET', key)
  if not free or type(free) == 'table' then
    return nil, free or -1
  end
  free = count_of(free)
  if not free then
    return nil, -3
  end
  local sum = 0
  for i = 5, #ARGV do
    if sum + tonumber(ARGV[i]) > free then
      break
    end
    sum = sum + tonumber(ARGV[i])
  end
  if sum == 0 then
    return nil, -1
  end
  local taking = string.format('%.0f', sum)
  local failed = keep(notes, who, request .. ' ' .. taking, note)
  if failed then
    return nil, failed
  end
  local left = call('DECRBY', key, taking)
  if type(left) == 'table' then
    forget(notes, who, note)
    return nil, left
  end
  return sum
end

local taken, why = take()
if taken then
  return {now, 1, taken}
end
return {now, 0, 0, 1, why}
