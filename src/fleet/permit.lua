-- SPDX-License-Identifier: Apache-2.0
--
-- permit.lua - who holds how much of a concurrency limit until when.
--
-- Value: a sorted set with a member for each unit held, "<32 hex digits>:<number of the unit>" with its expiry in us as score, and
-- two that say how late it has been: "t" with minus the latest stamp, "f" with minus the latest fence.
--
-- A permit counts while now < its expiry. A fence is the clock, and never one that was given before. A clock more than a second
-- before the latest stamp stepped back: all expiries move with it, or holders that died would hold on for as long.
local permits = {}
kinds[99] = permits

function permits.read(it)
  it.shift, it.at, it.held, it.fence, it.hold = 0, us, 0, 0, it.p * it.unit
  local latest = check(it, pcall_store('ZSCORE', it.key, 't'))
  local fence = not it.damaged and call('ZSCORE', it.key, 'f')
  latest, fence = latest and -tonumber(latest), fence and -tonumber(fence)
  if latest and fence and is_whole(latest) and is_whole(fence) then
    it.is_there, it.fence = true, fence
    if us < latest - SECOND then
      it.shift = latest - us
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

-- The expiry that is the `place`-th to come, from 0 on; -1: the last one of all.
local function permit_expiry(it, place)
  local found
  if place < 0 then
    found = call('ZRANGE', it.key, -1, -1, 'WITHSCORES')
  else
    found = call('ZRANGEBYSCORE', it.key, it.since, '+inf', 'WITHSCORES', 'LIMIT', place, 1)
  end
  return found[2] and tonumber(found[2]) - it.shift or it.at
end

function permits.span(it)
  return it.is_there and not it.damaged and max(permit_expiry(it, -1) - us, it.hold) or it.hold
end

-- Move all scores to the clock that stepped back.
local function permit_shift(it)
  local all = call('ZRANGE', it.key, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if all[i] ~= 'f' and all[i] ~= 't' then
      call('ZADD', it.key, digits(tonumber(all[i + 1]) - it.shift), all[i])
    end
  end
  it.shift = 0
end

-- What has expired goes, what is left moves where the clock stepped back, and the stamp stays.
local function permit_settle(it)
  if it.damaged then
    call('DEL', it.key)
    it.damaged, it.was_damaged = false, true
  elseif it.is_there then
    call('ZREMRANGEBYSCORE', it.key, 0, digits(it.at + it.shift))
    if it.shift > 0 then
      permit_shift(it)
    end
  end
  it.is_there, it.since = true, '(' .. digits(it.at)
  call('ZADD', it.key, -it.at, 't', -it.fence, 'f')
end

function permits.take(it)
  it.added = it.cost
end

function permits.save(it)
  it.fence = max(it.at, it.fence + 1)
  permit_settle(it)
  local expiry = digits(it.at + it.hold)
  for from = 0, it.added - 1, 1000 do
    local units = {}
    for unit = from, min(from + 999, it.added - 1) do
      units[#units + 1] = expiry
      units[#units + 1] = id .. ':' .. unit
    end
    call('ZADD', it.key, unpack(units))
  end
  it.held, it.charged_at = it.held + it.added, it.fence
  call('PEXPIRE', it.key, lifetime(permits.span(it)))
  it.wrote = true
end

function permits.report(it, passes)
  local wanted, retry = max(it.cost, 1), 0
  if it.blocked then
    local rest = ticks(it, it.blocked - us)
    return 0, it.cost > it.most and -1 or rest, rest, it.at
  end
  if not passes and it.held + wanted > it.most then
    retry = wanted > it.most and -1 or ticks(it, permit_expiry(it, it.held + wanted - it.most - 1) - us)
  end
  local reset = it.held > 0 and ticks(it, permit_expiry(it, -1) - us) or 0
  return max(0, it.most - it.held), retry, reset, it.charged_at or it.at
end
