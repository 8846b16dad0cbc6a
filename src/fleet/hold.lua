-- SPDX-License-Identifier: Apache-2.0
--
-- hold.lua - the permits of an id, on every item: held for another hold, all or none, or returned.
--
-- Reply: 1 held, and us until the first of them expires, -1 where none is held for longer.
local RENEW = 110

local any, all = false, true
for i = 1, count do
  local it = items[i]
  permits.read(it)
  it.units = permit_units(it)
  it.is_held = #it.units > 0 and tonumber(call('ZSCORE', it.key, it.units[1])) > it.at + it.shift
  any, all = any or it.is_held, all and it.is_held
end

local soonest = -1
for i = 1, count do
  local it = items[i]
  if verb ~= RENEW then
    permit_drop(it)
  elseif all then
    permit_settle(it)
    local expiry = digits(it.at + it.hold)
    for from = 1, #it.units, 1000 do
      local some = {}
      for j = from, min(from + 999, #it.units) do
        some[#some + 1] = expiry
        some[#some + 1] = it.units[j]
      end
      call('ZADD', it.key, unpack(some))
    end
    call('PEXPIRE', it.key, lifetime(permits.span(it)))
    it.wrote = true
    local left = it.at + it.hold - us
    soonest = soonest < 0 and left or min(soonest, left)
  end
  leave(it)
end
if verb == RENEW then
  return { all and 1 or 0, all and soonest or -1 }
end
return { any and 1 or 0, -1 }
