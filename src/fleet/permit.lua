-- SPDX-License-Identifier: Apache-2.0
--
-- permit.lua - who holds how much of a concurrency limit until when.
--
-- Value: a sorted set with a member for each unit held, "<32 hex digits>:<number of the unit>" with its expiry in us as score, and
-- two that say how late it has been: "t" with minus the latest stamp, "f" with minus the latest fence.
--
-- A permit counts while now < its expiry. A fence is the clock, and never one that was given before. A clock more than a second
-- before the latest stamp stepped back: all expiries move with it, or holders that died would hold on for as long.
if wanted[99] then
  local permits = {}
  kinds[99] = permits

  -- Lua's own conversion keeps 14 digits.
  local function digits(x)
    return string.format('%.0f', x)
  end

  function permits.read(it)
    it.shift, it.at, it.held, it.fence, it.hold = 0, us, 0, 0, it.p * it.unit
    local latest = check(it, pcall_store('ZSCORE', it.key, 't'))
    local fence = latest and call('ZSCORE', it.key, 'f')
    latest, fence = latest and -latest, fence and -fence
    if latest and fence and is_whole(latest) and is_whole(fence) then
      it.is_there, it.fence = true, fence
      if us < latest - SECOND then
        it.shift, it.moved = latest - us, true
      end
      it.at = max(us, latest - it.shift)
      it.since = '(' .. digits(it.at + it.shift)
      it.held = call('ZCOUNT', it.key, it.since, '+inf')
    elseif not it.damaged and call('EXISTS', it.key) == 1 then
      it.is_there, it.damaged = true, true
    end
    if it.began and (it.damaged or not it.is_there) and us < it.began + it.hold then
      it.blocked = it.began + it.hold
    end
  end

  function permits.passes(it)
    return not it.blocked and it.held + it.cost <= it.most
  end

  -- When the last one held expires.
  local function last_expiry(it)
    if not it.last then
      local found = it.is_there and not it.damaged and call('ZRANGE', it.key, -1, -1, 'WITHSCORES')
      it.last = found and found[2] and found[2] - it.shift or it.at
    end
    return it.last
  end

  function permits.span(it)
    return max(last_expiry(it) - us, it.hold)
  end

  -- All scores follow a clock that stepped back.
  local function move(it)
    local all = call('ZRANGE', it.key, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
      if all[i] ~= 'f' and all[i] ~= 't' then
        call('ZADD', it.key, digits(all[i + 1] - it.shift), all[i])
      end
    end
    it.shift = 0
  end

  -- What has expired goes, the stamp and the fence stay, and units are held until the expiry. Nothing is held twice.
  function permits.hold(it, units)
    if it.damaged then
      call('DEL', it.key)
      it.damaged, it.was_damaged = false, true
    elseif it.is_there then
      call('ZREMRANGEBYSCORE', it.key, 0, digits(it.at + it.shift))
      if it.shift > 0 then
        move(it)
      end
    end
    it.is_there, it.wrote, it.last, it.since = true, true, nil, '(' .. digits(it.at)
    local expiry, pairs_of = digits(it.at + it.hold), { 'ZADD', it.key, digits(-it.at), 't', digits(-it.fence), 'f' }
    for i = 1, #units do
      pairs_of[#pairs_of + 1] = expiry
      pairs_of[#pairs_of + 1] = units[i]
      if #pairs_of > 2000 then
        call(unpack(pairs_of))
        pairs_of = { 'ZADD', it.key }
      end
    end
    if #pairs_of > 2 then
      call(unpack(pairs_of))
    end
    call('PEXPIRE', it.key, lifetime(permits.span(it)))
  end

  function permits.take(it)
    it.fence = max(it.at, it.fence + 1)
    it.charged_at = it.fence
    it.units = {}
    for unit = 0, it.cost - 1 do
      it.units[unit + 1] = id .. ':' .. unit
    end
    it.held = it.held + it.cost
  end

  function permits.save(it)
    permits.hold(it, it.units or {})
  end

  function permits.report(it, passes)
    local wanted_units, retry = max(it.cost, 1), 0
    if it.blocked then
      local rest = ticks(it, it.blocked - us)
      return 0, it.cost > it.most and -1 or rest, rest, it.at
    end
    if not passes and it.held + wanted_units > it.most then
      retry = -1
      if wanted_units <= it.most then
        local place = it.held + wanted_units - it.most - 1
        local found = call('ZRANGEBYSCORE', it.key, it.since, '+inf', 'WITHSCORES', 'LIMIT', place, 1)
        retry = ticks(it, found[2] - it.shift - us)
      end
    end
    local reset = it.held > 0 and ticks(it, last_expiry(it) - us) or 0
    return max(0, it.most - it.held), retry, reset, it.charged_at or it.at
  end
end
