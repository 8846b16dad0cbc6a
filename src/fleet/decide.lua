-- SPDX-License-Identifier: Apache-2.0
--
-- decide.lua - one decision over all items: looked at, then all charged or none (algorithms 1.11, 1.14, 1.15).
--
-- Nothing is written before everything was read. What is refused stays as it is, but where the clock stepped back or the
-- limit changed: this call is when that happened, and the next one must not find it so anew. Of a limit that is leased no more
-- nothing is out. Watched items take no part, and take when the others pass. Permits are taken by who acquires, everybody else
-- looks. A retry key says that this request was let through before: it is looked at and not charged.
--
-- Reply: five whole numbers an item: outcome (0 allow, 1 deny, 2 never, 3 duplicate) + 8 its value was damaged + 16 it was
-- charged; what remains; ticks until a retry and until it is whole, -1 never; the stamp of the charge, or the fence of a permit.
--
-- The reservation's value: <BBd, 10 bytes: 'r', 0 open or 1 settled, expiry in us; and for each item <Bdd, 17 bytes:
-- 1 charged + 2 a settlement changes it, cost, stamp of the charge. A retry key's: <Bd, 9 bytes: 'u', free until, us.
local PEEK, RESERVE, ACQUIRE = 112, 114, 97

local function is_known(it)
  if not it.retry or it.cost == 0 then
    return false
  end
  local seen = pcall_store('GET', it.retry)
  if not seen then
    return false
  elseif type(seen) == 'string' and #seen == 9 then
    local tag, till = unpack_struct('<Bd', seen)
    if tag == 117 and is_whole(till) then
      if call('PTTL', it.retry) == -1 then
        call('PEXPIRE', it.retry, lifetime(it.free_within))
      end
      return till > us and till - us <= it.free_within + SECOND
    end
  end
  check({}, seen)
  it.bad_retry = true
  return false
end

local refuses, never = false, false
for i = 1, count do
  local it = items[i]
  local kind_of = kinds[it.kind]
  it.is = kind_of
  kind_of.read(it)
  if it.ver > 0 and not it.leased then
    it.out, it.ver, it.moved = 0, 0, true
  end
  if it.cost > it.most then
    it.outcome = 2
  elseif it.cost == 0 or kind_of.passes(it) then
    it.outcome = 0
  else
    it.outcome = 1
  end
  it.was_damaged = it.damaged
end
for i = 1, count do
  local it = items[i]
  it.known = is_known(it)
  if not it.watched and not it.known and it.outcome > 0 then
    refuses, never = true, never or it.outcome == 2
  end
end

local function may_take(it)
  return not it.known and it.cost > 0 and (it.kind ~= 99 or verb == ACQUIRE and not it.watched)
end

for i = 1, count do
  local it = items[i]
  local is = it.is
  local passed = it.outcome == 0 and not refuses and may_take(it)
  local refused = it.outcome == 1 and it.charges and may_take(it)
  if it.watched then
    refused = refused and not refuses
  else
    refused = refused and not never
  end
  if verb == PEEK then
    passed, refused = false, false
  end
  if passed then
    is.take(it)
    is.save(it)
    it.charged = true
    if it.retry then
      call('SET', it.retry, pack('<Bd', 117, us + it.free_within), 'PX', lifetime(it.free_within))
    end
  elseif refused then
    is.refuse(it)
    is.save(it)
  elseif it.moved and verb ~= PEEK then
    is.save(it)
  end
end

local reply, record = {}, {}
for i = 1, count do
  local it = items[i]
  local remaining, retry, reset, at = it.is.report(it, it.outcome == 0 and it.cost > 0)
  leave(it)
  if it.bad_retry and not it.charged then
    call('DEL', it.retry)
  end
  local flags = it.known and 3 or it.outcome
  if it.damaged or it.was_damaged or it.bad_retry then
    flags = flags + 8
  end
  if it.charged then
    flags = flags + 16
  end
  local place = 5 * i - 4
  reply[place], reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] =
    flags, remaining, retry, reset, at
  if verb == RESERVE then
    local is_kept = it.charged and not it.watched
    record[#record + 1] = pack('<Bdd', (is_kept and 1 or 0) + (bit_of(it.flags, 16) and 2 or 0),
      is_kept and it.cost or 0, is_kept and at or 0)
  end
end
if verb == RESERVE and not refuses then
  call('SET', record_key, pack('<BBd', 114, 0, us + head_hold) .. table.concat(record), 'PX', lifetime(head_hold))
end
return reply
