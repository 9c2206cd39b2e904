local longest = 0

init = function(arguments)
  longest = tonumber(arguments[1])
end

delay = function()
  return math.random(0, longest)
end
