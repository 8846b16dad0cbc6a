-- SPDX-License-Identifier: Apache-2.0
--
-- giveback.lua - what settling and undoing do to a state: charging without asking, giving back in full, undoing strictly.
--
-- For each kind, after read():  put(it, amount) charges up to capacity and debt, gives what was charged and what was dropped;
-- back(it, at, amount) gives back what was charged at `at`, in windows only while they last, gives how much. Of a bucket parts of
-- a token change as well, which both tell by a last true;
-- undo(it) gives back it.cost, charged at it.charged_at, but never what refill has replaced since (algorithms 1.13).
-- Nothing falls below what is out: that is spent, or will be.
local function split(room, amount)
  local done = max(0, min(room, amount))
  return done, amount - done
end

local function lower(it, name, amount, least)
  local done = max(0, min(it[name] - (least or 0), amount))
  it[name] = it[name] - done
  return done
end

if wanted[98] then
  local bucket = kinds[98]

  function bucket.put(it, amount)
    local full = it.most + it.debt
    local done, dropped = split(full - it.used, amount)
    it.used = it.used + done
    if dropped > 0 and it.used <= full then
      it.used, it.rem = full, 0
    end
    return done, dropped, true
  end

  function bucket.back(it, _, amount)
    local whole = (it.rem == 0 and it.used or it.used - 1) - it.out
    if amount > whole then
      it.used, it.rem = it.out, 0
      return max(0, whole), true
    end
    it.used = it.used - amount
    return amount, true
  end

  -- All in tokens / p: the level falls by cost * p less what n per tick brought since, rounded up to be exact. Where the rate
  -- changed meanwhile, or the clock stepped back, what refill has replaced is not known: nothing comes back.
  function bucket.undo(it)
    local elapsed = it.at - it.charged_at
    if it.changed or elapsed < 0 or elapsed * it.n >= it.cost * it.p then
      return
    end
    local level = it.used * it.p - it.rem - it.cost * it.p + elapsed * it.n
    it.used, it.rem = it.out, 0
    if level > it.out * it.p then
      it.used = ceil(level / it.p)
      it.rem = it.used * it.p - level
    end
  end
end

if wanted[102] then
  local fixed = kinds[102]

  function fixed.put(it, amount)
    local done, dropped = split(it.most - it.used, amount)
    it.used = it.used + done
    return done, dropped
  end

  function fixed.back(it, at, amount)
    return it.start <= at and at < it.stop and lower(it, 'used', amount, it.out) or 0
  end

  function fixed.undo(it)
    if it.n > 1 or it.stop - it.start == it.p * it.unit then
      fixed.back(it, it.charged_at, it.cost)
    end
  end
end

if wanted[115] then
  local sliding = kinds[115]

  function sliding.put(it, amount)
    local done, dropped = split(it.most - it.current, amount)
    it.current = it.current + done
    return done, dropped
  end

  function sliding.back(it, at, amount)
    local start = at - at % it.p
    if start == it.start then
      return lower(it, 'current', amount)
    elseif start + it.p == it.start then
      return lower(it, 'previous', amount)
    end
    return 0
  end

  function sliding.undo(it)
    if not it.changed then
      sliding.back(it, it.charged_at, it.cost)
    end
  end
end

if wanted[108] then
  local log = kinds[108]

  function log.put(it, amount)
    if it.blocked then
      return 0, amount
    end
    local done, dropped = split(log.room(it, it.most, amount), amount)
    log.add(it, done)
    return done, dropped
  end

  -- Take units out of the entries from a place on whose stamp is `least` .. `at`, the newest first. They are written anew from the
  -- first one that changes on; where the newest one went, an entry of no units says how late it has been.
  local function take_out(it, place, least, at, amount)
    local entries = place < it.length and log.entries(it, place) or {}
    local sum = #entries > 0 and entries[1].sum - entries[1].units
    local left, first = amount, #entries + 1
    for i = #entries, 1, -1 do
      local entry = entries[i]
      if left > 0 and entry.stamp >= least and entry.stamp <= at and entry.units > 0 then
        local out = min(left, entry.units)
        entry.units = entry.units - out
        left, first = left - out, i
      end
    end
    if left == amount then
      return 0
    end
    local same, changed = it.shift > 0 and 0 or first - 1, {}
    for i = 1, #entries do
      local entry = entries[i]
      sum = sum + entry.units
      entry.sum = sum
      if i > same and (entry.units > 0 or i == #entries) then
        changed[#changed + 1] = entry
      end
    end
    it.live, it.sum = it.live - (amount - left), sum
    it.changed, it.same, it.place = changed, same, place
    return amount - left
  end

  function log.back(it, at, amount)
    return take_out(it, it.gone, 0, at - it.shift, amount)
  end

  -- Also of what has left the period: a stamp that is a little older would find it there.
  function log.undo(it)
    take_out(it, 0, it.charged_at - it.shift, it.charged_at - it.shift, it.cost)
  end

  -- The first `same` of the entries from `place` on stay where they are.
  function log.rewrite(it)
    if not it.changed then
      return
    end
    local lives = max(call('PTTL', it.key), lifetime(log.span(it)))
    if it.same > 0 then
      call('LTRIM', it.key, it.place, it.place + it.same - 1)
    else
      call('DEL', it.key)
    end
    log.write(it, it.changed)
    call('PEXPIRE', it.key, lives)
    it.length, it.gone, it.shift, it.wrote = it.same + #it.changed, 0, 0, true
  end
end

if wanted[99] then
  local permits = kinds[99]

  function permits.put()
    return 0, 0
  end

  function permits.back()
    return 0
  end

  -- What was never told to anybody needs no stamp.
  function permits.undo(it)
    permits.drop(it)
  end
end
