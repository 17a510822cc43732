-- count_of reads how many there are, as INCRBY would: "1e3", " 5", "0x10" and "nan" are numbers to Lua alone. Nil: it is
-- none, or none that Lua can calculate with.
local function count_of(text)
  local count = (text == '0' or string.match(text, '^-?[1-9]%d*$')) and tonumber(text)
  return count and math.abs(count) < 2 ^ 53 and count or nil
end
