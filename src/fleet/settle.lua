-- SPDX-License-Identifier: Apache-2.0
--
-- settle.lua - a reservation settled at what it cost or cancelled; a refund; and what was spent elsewhere, charged without asking.
--
-- A reservation is settled once: its value says so until it expires, and then only the numbers are told. Values keep the n and p
-- that they have: the sizes that a reservation was made under may have changed since.
--
-- Reply: seven whole numbers: 1 known, 1 repeated, charged, given back, dropped (each the most of any item), the least that
-- remains and which item that is; -1 where no item has a say.
local SETTLE, CANCEL, REFUND = 115, 99, 102

local value, till = nil, 0
if verb == SETTLE or verb == CANCEL then
  local seen = pcall_store('GET', record_key)
  local tag, status
  if type(seen) == 'string' and #seen == 10 + 17 * count then
    tag, status, till = unpack_struct('<BBd', seen)
  else
    check({}, seen)
  end
  if tag ~= 114 or not is_whole(till) or us >= till then
    if seen and (tag ~= 114 or call('PTTL', record_key) == -1) then
      call('DEL', record_key)
    end
    return { 0, 0, 0, 0, 0, -1, -1 }
  end
  value = { seen = seen, is_settled = status ~= 0 }
end

local charged, returned, dropped, remaining, least = 0, 0, 0, -1, -1

local function adjust(it, more, back, at)
  local is, changed = kinds[it.kind], false
  if more > 0 then
    local done, lost, parts = is.put(it, more)
    charged, dropped, changed = max(charged, done), max(dropped, lost), parts or done > 0
    if changed then
      is.save(it)
    end
  elseif back > 0 and it.is_there and not it.damaged then
    local done, parts = is.back(it, at or it.at + (it.shift or 0), back)
    returned, changed = max(returned, done), parts or done > 0
    if changed then
      local keep = is.rewrite or is.save
      keep(it)
    end
  end
  it.cost = 0
  return is.report(it, false)
end

for i = 1, count do
  kinds[items[i].kind].read(items[i])
end
for i = 1, count do
  local it = items[i]
  local more, back, at, takes = 0, 0, nil, true
  if value then
    local was, reserved
    was, reserved, at = unpack_struct('<Bdd', value.seen, 11 + 17 * (i - 1))
    local actual = verb == CANCEL and 0 or head_cost
    takes = was % 2 == 1 and (verb == CANCEL or was >= 2)
    more, back = max(0, actual - reserved), max(0, reserved - actual)
    if value.is_settled then
      more, back = 0, 0
    end
  elseif verb == REFUND then
    back = it.cost
  else
    more = it.cost
  end
  if takes then
    local left = adjust(it, more, back, at)
    if remaining < 0 or left < remaining then
      remaining, least = left, i - 1
    end
    leave(it)
  end
end
if value and not value.is_settled then
  call('SET', record_key, pack('<BBd', 114, 1, till) .. string.sub(value.seen, 11), 'PX', lifetime(till - us))
elseif value and call('PTTL', record_key) == -1 then
  call('PEXPIRE', record_key, lifetime(till - us))
end
return { 1, value and value.is_settled and 1 or 0, charged, returned, dropped, remaining, least }
