-- SPDX-License-Identifier: Apache-2.0
--
-- window.lua - fixed windows, of every alignment, and the sliding-window counter.
--
-- Values: fixed    <Bdddd, 33 bytes: 'f', family, start, end, count; in us.
--                  <Bdddddd, 49 bytes: the same and out, ver, once it was leased: `out` of the count is in somebody's hands; ver
--                  counts writes.
--         sliding  <Bdddd, 33 bytes: 's' or 'S', p, start, previous, current; in ticks, start is a multiple of p.
--
-- A stamp before the stored window is counted in it, from its beginning: a window that has begun is not reopened. A clock that
-- is behind by more than a whole window (and a second) stepped back: what was counted goes on in the window that it is in now.
if wanted[102] then
  local fixed = {}
  kinds[102] = fixed

  -- The window that the clock is in.
  local function fixed_here(it)
    local length = it.p * it.unit
    if it.n == 1 then
      return us, us + length
    elseif it.n == 0 then
      local start = us - us % length
      return start, start + length
    end
    for i = 1, 3 do
      if it.bounds[i] <= us and us < it.bounds[i + 1] then
        return it.bounds[i], it.bounds[i + 1]
      end
    end
    error({ err = 'ERR weir: the clock of the store is outside the calendar windows that it was asked about' })
  end

  local function fixed_stored(it)
    local seen = text_of(it, 33, 49)
    if seen then
      local tag, family, start, stop, used = unpack_struct('<Bdddd', seen)
      local fits = is_whole(family) and is_whole(start) and is_whole(stop) and is_whole(used) and start < stop
      local out, ver = 0, 0
      if #seen == 49 then
        out, ver = unpack_struct('<dd', seen, 34)
        fits = fits and is_whole(out) and is_whole(ver) and out <= used
      end
      if tag == 102 and fits then
        it.ver = ver
        if family == it.n then
          it.out = out
          return start, stop, used
        end
        return
      end
      it.damaged = true
    end
    if it.began then
      local here, ends = fixed_here(it)
      if it.n == 1 then
        return it.began, it.began + it.p * it.unit, it.most
      elseif it.began >= here then
        return here, ends, it.most
      end
    end
  end

  -- A stored window of another length goes on as one of this length.
  local function fixed_same(it, start, stop)
    local length = it.p * it.unit
    if it.keeps or it.n > 1 or stop - start == length then
      return start, stop
    elseif it.n == 0 then
      start = start - start % length
    end
    return start, start + length
  end

  function fixed.read(it)
    local here, ends = fixed_here(it)
    local start, stop, used = fixed_stored(it)
    it.start, it.stop, it.used, it.at = here, ends, 0, us
    if not start or us >= stop then
      it.out = 0
      return
    end
    local ahead = start - us
    if ahead > 0 then
      it.used = used
      if ahead <= max(SECOND, stop - start) then
        it.at = start
        it.start, it.stop = fixed_same(it, start, stop)
      end
    elseif used > 0 then
      it.used = used
      if it.keeps then
        it.start, it.stop = start, stop
      elseif it.n == 1 and stop - start == ends - here then
        it.start, it.stop = start, stop
      end
    end
    it.moved = (ahead > 0 or used > 0) and (it.start ~= start or it.stop ~= stop)
  end

  function fixed.passes(it)
    return it.used + it.cost <= it.most
  end

  function fixed.take(it)
    it.used = max(it.used, min(it.used + it.cost, most_of(it)))
  end
  fixed.refuse = fixed.take

  function fixed.span(it)
    return it.stop - us
  end

  function fixed.save(it)
    local value = pack('<Bdddd', 102, it.n, it.start, it.stop, it.used)
    if it.ver > 0 or it.lends then
      it.ver = it.ver + 1
      value = value .. pack('<dd', it.out, it.ver)
    end
    put(it, value, fixed.span(it))
  end

  function fixed.report(it, passes)
    local wanted, left, retry = max(it.cost, 1), max(0, it.most - it.used), 0
    if not passes and left < wanted then
      retry = wanted > it.most and -1 or ticks(it, it.stop - us)
    end
    return left, retry, it.used > 0 and ticks(it, it.stop - us) or 0, it.at
  end
end

if wanted[115] then
  local sliding = {}
  kinds[115] = sliding

  local function sliding_stored(it)
    local seen = text_of(it, 33)
    if seen then
      local tag, p, start, previous, current = unpack_struct('<Bdddd', seen)
      local fits = is_whole(p) and is_whole(start) and is_whole(previous) and is_whole(current)
      if fits and (tag == 115 or tag == 83) and p >= 1 and start % p == 0
          and previous * p <= 2 * WHOLE and current * p <= 2 * WHOLE then
        return p, start, previous, current, tag == 115 and 1 or 1000
      end
      it.damaged = true
    end
    if it.began then
      local began = floor(it.began / it.unit)
      return it.p, began - began % it.p, 0, it.most, it.unit
    end
  end

  -- What is counted in the window that a clock is in, or in the stored one where that is later.
  local function sliding_roll(clock, second, p, start, previous, current)
    local here = clock - clock % p
    if start > here then
      if start - clock > max(second, p) then
        return here, 0, previous + current, true
      end
      return start, previous, current
    elseif start == here then
      return start, previous, current
    elseif start + p == here then
      return here, current, 0
    end
    return here, 0, 0
  end

  function sliding.read(it)
    local p, start, previous, current, unit = sliding_stored(it)
    it.start, it.previous, it.current = it.now - it.now % it.p, 0, 0
    if p then
      if it.keeps then
        it.changed = it.p ~= p or it.unit ~= unit
        it.p, it.unit, it.now = p, unit, floor(us / unit)
      end
      local clock = floor(us / unit)
      start, previous, current, it.moved = sliding_roll(clock, SECOND / unit, p, start, previous, current)
      if p ~= it.p or unit ~= it.unit then
        local elapsed = max(0, clock - start)
        current = current + ceil(previous * (p - elapsed) / p)
        current = min(current, floor(WHOLE / it.p))
        local at = floor(max(us, start * unit) / it.unit)
        start, previous, it.moved = at - at % it.p, 0, true
      end
      it.start, it.previous, it.current = start, previous, current
    end
    it.at = max(it.now, it.start)
  end

  -- Each product is below 2^53, and one of them is exact where they are compared; so nothing is added up.
  function sliding.passes(it)
    return it.previous * (it.p - (it.at - it.start)) <= (it.most - it.current - it.cost) * it.p
  end

  function sliding.take(it)
    it.current = max(it.current, min(it.current + it.cost, most_of(it)))
  end
  sliding.refuse = sliding.take

  function sliding.span(it)
    local whole = it.current > 0 and it.start + 2 * it.p or it.start + it.p
    return (whole - it.now) * it.unit
  end

  function sliding.save(it)
    put(it, pack('<Bdddd', it.unit == 1 and 115 or 83, it.p, it.start, it.previous, it.current), sliding.span(it))
  end

  -- Elapsed ticks of a window from which `room` more than it counts fit beside `weighted` fading ones.
  local function fades_at(it, room, weighted)
    if weighted == 0 then
      return 0
    end
    local overlap = floor(room * it.p / weighted)
    return overlap >= it.p and 0 or it.p - overlap
  end

  function sliding.report(it, passes)
    local wanted, retry, reset = max(it.cost, 1), 0, 0
    if not passes then
      local room = it.most - it.current - wanted
      if wanted > it.most then
        retry = -1
      elseif room >= 0 then
        retry = max(it.at, it.start + fades_at(it, room, it.previous)) - it.now
      else
        retry = max(it.at, it.start + it.p + fades_at(it, it.most - wanted, it.current)) - it.now
      end
      if retry == it.at - it.now then
        retry = 0
      end
    end
    if it.current > 0 then
      reset = it.start + 2 * it.p - it.now
    elseif it.previous > 0 then
      reset = it.start + it.p - it.now
    end
    local weight = ceil(it.previous * (it.p - (it.at - it.start)) / it.p)
    return max(0, it.most - it.current - weight), retry, reset, it.at
  end
end
