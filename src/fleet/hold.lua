-- SPDX-License-Identifier: Apache-2.0
--
-- hold.lua - the permits of an id, on every item: held for another hold, all or none, or returned.
--
-- Reply: 1 held, and us until the first of them expires, -1 where none is held for longer.
local RENEW = 110

local permits, any, all = kinds[99], false, true
for i = 1, count do
  local it = items[i]
  permits.read(it)
  it.units = permits.units(it)
  it.is_held = #it.units > 0 and call('ZSCORE', it.key, it.units[1]) - it.shift > it.at
  any, all = any or it.is_held, all and it.is_held
end

local soonest = -1
for i = 1, count do
  local it = items[i]
  if verb ~= RENEW then
    permits.drop(it)
  elseif all then
    permits.hold(it, it.units)
    local left = it.at + it.hold - us
    soonest = soonest < 0 and left or min(soonest, left)
  end
  leave(it)
end
if verb == RENEW then
  return { all and 1 or 0, soonest }
end
return { any and 1 or 0, -1 }
