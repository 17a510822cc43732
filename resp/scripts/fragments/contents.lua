-- How many bytes of fields and values a call reads, of all its hashes, and how many pages: in a table that is nearly
-- empty many pages have none.
local BYTES, PAGES = 1048576, 50000
local room, pages = BYTES, PAGES

-- The fields of a hash of so many, and their values, in turn; nil: they are more than is read; or the refusal. HGETALL
-- would answer with whatever stands there, and that takes the server as long as it is large; so from three fields on
-- they are asked for one by one, until it is too much. Nobody writes meanwhile: each comes once.
local function contents(key, size)
  local call, out, cursor = redis.pcall, {}, '0'
  for _ = 1, PAGES do
    if room < 0 or pages <= 0 then
      return nil
    end
    pages = pages - 1
    local page = size > 2 and call('HSCAN', key, cursor, 'COUNT', 1)
    if not page or page.err then
      page = {'0', call('HGETALL', key)} -- at most two, or nobody gave the right to HSCAN
      if page[2].err then
        return page[2]
      end
    end
    for _, text in ipairs(page[2]) do
      room = room - #text
      out[#out + 1] = text
    end
    cursor = page[1]
    if cursor == '0' then
      return room >= 0 and out or nil
    end
  end
  return nil
end
