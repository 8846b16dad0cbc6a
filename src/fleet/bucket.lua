-- SPDX-License-Identifier: Apache-2.0
--
-- bucket.lua - what is used of a bucket, with its remainder (algorithms 4.2).
--
-- Value: <Bddddd, 41 bytes: 'b' or 'B', used, rem, last, n, p. The level is used - rem / p tokens at `last`, 0 <= rem < p.
--        <Bdddddddd, 65 bytes: the same and out, ver, till, once it was leased: `out` of the level is in somebody's hands until
--        `till`, us, at the latest, and is not refilled before (4.4); ver counts writes.
--
-- Drained with the n and p that it was stored under, then taken to the item's: crediting the elapsed time at the new rate would
-- mint. A clock that is up to a second behind is held at `last`; one that is further behind stepped back, and nothing is credited
-- for that; a bucket does not freeze.
if wanted[98] then
  local bucket = {}
  kinds[98] = bucket

  -- floor(rem * to / from), or a little less where no double holds the product: the level never falls by a change.
  local function rescale(rem, from, to)
    local divisor, rest = from, to % from
    while rest > 0 do
      divisor, rest = rest, divisor % rest
    end
    local times, by = to / divisor, from / divisor
    if rem * times <= 2 * WHOLE then
      return (rem * times - rem * times % by) / by
    end
    return max(0, min(to - 1, floor(rem / from * to * (1 - 1 / 1125899906842624))))
  end

  local function bucket_stored(it)
    local seen = text_of(it, 41, 65)
    if seen then
      local tag, used, rem, last, n, p = unpack_struct('<Bddddd', seen)
      local fits = is_whole(used) and is_whole(rem) and is_whole(last) and is_whole(n) and is_whole(p)
      local out, ver, till = 0, 0, 0
      if #seen == 65 then
        out, ver, till = unpack_struct('<ddd', seen, 42)
        fits = fits and is_whole(out) and is_whole(ver) and is_whole(till) and out <= used and (out < used or rem == 0)
      end
      if fits and (tag == 98 or tag == 66) and rem < p and used * p <= 2 * WHOLE and (used > 0 or rem == 0) then
        it.out, it.ver, it.till = out, ver, till
        return used, rem, last, n, p, tag == 98 and 1 or 1000
      end
      it.damaged = true
    end
    if it.began then
      return it.most, 0, ceil((it.began + it.pause) / it.unit), it.n, it.p, it.unit
    end
  end

  -- Not below `least`.
  local function drain(used, rem, elapsed, n, p, least)
    if elapsed * n >= (used - least) * p then
      return least, 0
    end
    local back = elapsed * n + rem
    rem = back % p
    used = used - (back - rem) / p
    if used <= least then
      return least, 0
    end
    return used, rem
  end

  function bucket.read(it)
    local used, rem, last, n, p, unit = bucket_stored(it)
    it.used, it.rem, it.at = 0, 0, it.now
    if not used then
      return
    end
    local clock = floor(us / unit)
    if it.began and us < it.began + it.pause and (it.damaged or not it.is_there) then
      it.waits, clock = true, last -- nothing comes back yet, and nothing is to be written
    elseif clock < last - SECOND / unit then
      -- TIME may have been up to a second behind `last`: what is out is never over too soon, and at most a second late.
      it.till = max(0, it.till - (last - clock) * unit + SECOND)
      last, it.moved = clock, true
    elseif clock < last then
      clock = last
    end
    if it.out > 0 and us >= it.till then
      local over = min(clock, max(last, ceil(it.till / unit)))
      used, rem = drain(used, rem, over - last, n, p, it.out)
      last, it.out = over, 0
    end
    used, rem = drain(used, rem, clock - last, n, p, it.out)
    it.changed = it.n ~= n or it.p ~= p or it.unit ~= unit
    it.moved = it.moved or it.changed
    if it.keeps then
      it.n, it.p, it.unit = n, p, unit
      it.now = floor(us / unit)
    end
    if unit == it.unit then
      it.at = clock
    elseif unit == 1 then
      it.at = floor(clock / 1000) + 1
    else
      it.at = max(it.now, clock * 1000)
    end
    if p ~= it.p then
      rem = rescale(rem, p, it.p)
      used = min(used, floor(WHOLE / it.p))
    end
    it.out = min(it.out, used)
    if used == it.out then
      rem = 0
    end
    it.used, it.rem, it.over = used, rem, it.at - it.now
  end

  function bucket.passes(it)
    return it.used + it.cost <= it.most
  end

  function bucket.take(it)
    it.used = it.used + it.cost
  end

  function bucket.refuse(it)
    if it.used + it.cost <= 2 * it.most then
      it.used = it.used + it.cost
    elseif it.used <= 2 * it.most then
      it.used, it.rem = 2 * it.most, 0
    end
  end

  -- In ticks, what is out counted as spent now; nil: never.
  local function bucket_until(it, above)
    if above * it.p - it.rem <= 0 then
      return 0
    end
    return it.n > 0 and ceil((above * it.p - it.rem) / it.n) or nil
  end

  function bucket.span(it)
    local full = bucket_until(it, it.used)
    return full and (full + it.over) * it.unit + (it.out > 0 and max(0, it.till - us) or 0) or TEN_YEARS
  end

  function bucket.save(it)
    if it.waits then
      return
    end
    local value = pack('<Bddddd', it.unit == 1 and 98 or 66, it.used, it.rem, it.at, it.n, it.p)
    if it.ver > 0 or it.lends then
      it.ver = it.ver + 1
      value = value .. pack('<ddd', it.out, it.ver, it.till)
    end
    put(it, value, bucket.span(it))
  end

  function bucket.report(it, passes)
    local wanted = max(it.cost, 1)
    local retry, reset = 0, bucket_until(it, it.used)
    if not passes then
      retry = wanted <= it.most and bucket_until(it, it.used + wanted - it.most) or nil
    end
    retry = retry and (retry > 0 and retry + it.over or 0) or -1
    reset = reset and (reset > 0 and reset + it.over or 0) or -1
    return max(0, it.most - it.used), retry, reset, it.at
  end
end
