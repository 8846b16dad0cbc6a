-- SPDX-License-Identifier: Apache-2.0
--
-- permit_units.lua - the units of one permit, found by its id.
if wanted[99] then
  local permits = kinds[99]

  -- Members, from the first on until one is missing.
  function permits.units(it)
    local units = {}
    if it.is_there and not it.damaged then
      while call('ZSCORE', it.key, id .. ':' .. #units) do
        units[#units + 1] = id .. ':' .. #units
      end
    end
    return units
  end

  function permits.drop(it)
    local units = permits.units(it)
    for from = 1, #units, 1000 do
      call('ZREM', it.key, unpack(units, from, min(from + 999, #units)))
    end
  end
end
