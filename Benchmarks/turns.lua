-- One of several loads that take turns, each at a process of its own: requests are only sent in the load's own turn, over
-- connections that stay. What comes and goes on the machine meets all of them alike.
--
-- Arguments: which of the loads this is (from 0), how many there are, the length of a turn and of the silence behind it, and
-- the longest of the random pauses before each request; times in milliseconds.
local ffi = require("ffi")
ffi.cdef [[
  struct time { long seconds; long nanoseconds; };
  int clock_gettime(int clock, struct time *now);
]]
local now = ffi.new("struct time")
local start, turn, cycle, longest

init = function(arguments)
  local number, loads, length, silence, pause = unpack(arguments)
  turn, longest = tonumber(length), tonumber(pause)
  cycle = loads * (length + silence)
  start = number * (length + silence)
end

delay = function()
  ffi.C.clock_gettime(1, now)
  local pause = math.random(0, longest)
  local time = tonumber(now.seconds) * 1000 + tonumber(now.nanoseconds) / 1e6
  local at = (time + pause - start) % cycle
  if at < turn then return pause end
  -- Not all at once: a burst at the start of each turn would be more than a hundredth of it.
  return math.ceil(pause + cycle - at) + math.random(0, math.max(longest, 40))
end
