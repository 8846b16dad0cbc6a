-- SPDX-License-Identifier: Apache-2.0
--
-- permit_units.lua - the units of one permit, found by its id.
-- The units of a permit, until one is missing. What was never told to anybody needs no stamp.
local function permit_units(it)
  local units = {}
  if it.is_there and not it.damaged then
    while #units < it.most + 65536 and call('ZSCORE', it.key, id .. ':' .. #units) do
      units[#units + 1] = id .. ':' .. #units
    end
  end
  return units
end

local function permit_drop(it)
  local units = permit_units(it)
  for from = 1, #units, 1000 do
    call('ZREM', it.key, unpack(units, from, min(from + 999, #units)))
  end
  return #units
end
