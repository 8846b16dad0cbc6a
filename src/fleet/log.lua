-- SPDX-License-Identifier: Apache-2.0
--
-- log.lua - the sliding log: exact, an entry per charge.
--
-- Value: a list, the oldest in front, of <Bddd, 25 bytes: 'l', stamp in us, sum of all units up to and with this entry, its units.
-- Stamps never decrease, and the newest one says how late it has been: where it was given back an entry of no units stands last.
--
-- A stamp t counts in (now - p, now]. Sums make what is live, and whose leaving makes room for a cost, a search by halves.
-- A clock more than a second before the newest stamp stepped back: all stamps move with it.
if wanted[108] then
  local log = {}
  kinds[108] = log
  local LOG_MOST = 65536

  local function log_entry(it, reply)
    if type(reply) == 'string' and #reply == 25 then
      local tag, stamp, sum, units = unpack_struct('<Bddd', reply)
      if tag == 108 and is_whole(stamp) and is_whole(sum) and is_whole(units) and units <= sum then
        return { stamp = stamp - it.shift, sum = sum, units = units }
      end
    end
    it.is_there, it.damaged = true, true
  end

  local function log_at(it, place)
    return log_entry(it, check(it, pcall_store('LINDEX', it.key, place)))
  end

  -- The first place from `low` on whose entry holds; nil: none. It is looked at first, for it mostly does.
  local function log_find(it, low, holds)
    local high = it.length
    local entry = log_at(it, low)
    if not entry or holds(entry) then
      return low, entry
    end
    low = low + 1
    local found
    while low < high do
      local middle = floor((low + high) / 2)
      entry = log_at(it, middle)
      if not entry then
        return
      elseif holds(entry) then
        high, found = middle, entry
      else
        low = middle + 1
      end
    end
    return high, found
  end

  local function log_empty(it)
    it.live, it.sum, it.newest, it.last, it.gone, it.length = 0, 0, 0, 0, 0, 0
  end

  function log.read(it)
    it.length_us, it.shift, it.at = it.p * it.unit, 0, us
    log_empty(it)
    local reply = check(it, pcall_store('LINDEX', it.key, -1))
    local newest = reply and log_entry(it, reply)
    if newest then
      it.is_there = true
      if us < newest.stamp - SECOND then
        it.shift, it.moved = newest.stamp - us, true
        newest.stamp = us
      end
      it.at = max(us, newest.stamp)
      it.sum, it.newest, it.last, it.length = newest.sum, newest.stamp, newest.stamp, call('LLEN', it.key)
      if newest.units == 0 then
        it.is_marked = true
        local before = it.length > 1 and log_at(it, -2)
        it.last = before and before.stamp or 0
      end
      local since = it.at - it.length_us
      if newest.stamp <= since then
        it.gone = it.length
      else
        local place, oldest = log_find(it, 0, function(entry)
          return entry.stamp > since
        end)
        if oldest then
          it.gone = place
          it.live = it.sum - (oldest.sum - oldest.units)
        else
          it.damaged = true
        end
      end
    end
    if it.damaged then
      it.shift, it.at = 0, us
      log_empty(it)
    end
    if it.began and (it.damaged or not it.is_there) and us < it.began + it.length_us then
      it.blocked = it.began + it.length_us
    end
  end

  function log.passes(it)
    return not it.blocked and it.live + it.cost <= it.most
  end

  function log.write(it, entries)
    for from = 1, #entries, 1000 do
      local some = {}
      for i = from, min(from + 999, #entries) do
        local entry = entries[i]
        some[#some + 1] = pack('<Bddd', 108, entry.stamp, entry.sum, entry.units)
      end
      call('RPUSH', it.key, unpack(some))
    end
  end

  -- The live entries from a place on, as tables.
  function log.entries(it, place)
    local entries = {}
    for _, reply in ipairs(call('LRANGE', it.key, place, -1)) do
      entries[#entries + 1] = log_entry(it, reply)
    end
    return entries
  end

  function log.add(it, units)
    it.added = units
    if units > 0 then
      it.live, it.newest, it.last = it.live + units, it.at, it.at
    end
  end

  function log.take(it)
    log.add(it, it.cost)
  end

  function log.room(it, most, amount)
    most = min(most, LOG_MOST)
    return max(0, min(amount, most - it.live))
  end

  function log.refuse(it)
    log.add(it, log.room(it, 2 * it.most, it.cost))
  end

  function log.span(it)
    return it.newest + it.length_us - us
  end

  function log.save(it)
    local added = it.added or 0
    if added == 0 and it.shift == 0 then
      return
    end
    if it.damaged then
      call('DEL', it.key)
    elseif it.shift > 0 then
      local entries = it.gone < it.length and log.entries(it, it.gone) or {}
      call('DEL', it.key)
      log.write(it, entries)
    elseif it.gone > 0 then
      call('LTRIM', it.key, it.gone, -1)
    end
    it.length, it.gone, it.shift, it.wrote = it.length - it.gone, 0, 0, true
    if added > 0 then
      if it.is_marked and it.length > 0 then
        call('RPOP', it.key)
        it.length = it.length - 1
      end
      it.sum, it.length = it.sum + added, it.length + 1
      log.write(it, { { stamp = it.at, sum = it.sum, units = added } })
    end
    call('PEXPIRE', it.key, lifetime(log.span(it)))
  end

  function log.report(it, passes)
    local wanted, retry = max(it.cost, 1), 0
    if it.blocked then
      local rest = ticks(it, it.blocked - us)
      return 0, wanted > it.most and -1 or rest, rest, it.at
    end
    if not passes and it.live + wanted > it.most then
      retry = -1
      if wanted <= it.most then
        local sum = it.sum + wanted - it.most
        local _, entry = log_find(it, it.gone, function(entry)
          return entry.sum >= sum
        end)
        retry = ticks(it, (entry and entry.stamp or it.at) + it.length_us - us)
      end
    end
    local reset = it.live > 0 and ticks(it, it.last + it.length_us - us) or 0
    return max(0, it.most - it.live), retry, reset, it.at
  end
end
