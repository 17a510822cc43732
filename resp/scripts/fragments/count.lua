-- count_of reads how many there are, as INCRBY would: "1e3", " 5", "0x10" and "nan" are numbers to Lua alone. Nil: it is
-- none, or none that Lua can calculate with.
local function count_of(text)
  local whole = (text == '0' or string.match(text, '^-?[1-9]%d*$')) and tonumber(text)
  return whole and math.abs(whole) < 2 ^ 53 and whole or nil
end
