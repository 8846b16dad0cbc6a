-- SPDX-License-Identifier: Apache-2.0
--
-- lease.lua - portions of a budget in the hands of processes: granted, reported, given back, lost (algorithms 4.4).
--
-- Idea: the budget is debited when a portion is granted. What a process spent or lost is not credited, what it gives back is; so
-- nothing that befalls processes, messages or clocks adds to the budget. A message is done once: one that is repeated is told what was
-- granted then, one that comes behind a later one is ignored, and nobody is credited more than its record holds.
--
-- KEYS: the limits' keys, then those of their holders, in the same order.
-- ARGV[1]: the head, whose id is the run, 16 hex digits, and a label. ARGV[2..]: an item each, and behind it 11 numbers:
--     most, chunk, how long a portion lasts and the grace behind it, us; seq, used, give, want;
--     what the process saw last: version, used, at
--
-- A holders' key: a hash. 't' is the sums, <Bddddddddddddd, 105 bytes: 't', granted, returned, spent, lost; records that want
-- something, records, and what they want to hold; off and last of the clock; the window, and the round, which rises with each other
-- window; the soonest expiry or one before it, and the last one. Each run is a record, <Bddddddd and the label: 'k', seq, left, what
-- the last message was granted, expiry, what it wanted to hold, the round, how long the portion lasts. What is out is
-- granted - returned - spent - lost, and the sum of all left of this round.
--
-- The clock of leases is TIME and never steps back: `off` is how far TIME did. What is out of another round is lost. `till` of the
-- limit's value is the last expiry, so that decisions go on where nobody speaks of leases any more.
--
-- Reply: ten whole numbers a message: 1 stale + 2 repeated + 8 something was damaged + 16 writes were lost; granted, left, us that
-- the portion lasts; what remains, ticks until there is something; us until the window's end; version, used, at. -1: never.
local HOLDERS_MAX = 1000
local TOTALS, TOTALS_LEN, RECORD, RECORD_LEN = '<Bddddddddddddd', 105, '<Bddddddd', 57
local WORDS, WORDS_LEN = '<ddddddddddd', 88
local run, label = string.sub(id, 1, 16), string.sub(id, 17)

local function numbers(text, tag, format)
  local all = { unpack_struct(format, text) }
  for i = 2, #all - 1 do
    if not is_whole(all[i]) then
      return nil
    end
  end
  return all[1] == tag and all
end

local function totals_of(text)
  local v = #text == TOTALS_LEN and numbers(text, 116, TOTALS)
  return v and v[2] >= v[3] + v[4] + v[5] and {
    granted = v[2], returned = v[3], spent = v[4], lost = v[5], active = v[6], count = v[7], wants = v[8],
    off = v[9], last = v[10], start = v[11], round = v[12], soonest = v[13], till = v[14]
  }
end

local function record_of(text)
  local v = #text >= RECORD_LEN and numbers(text, 107, RECORD)
  return v and { seq = v[2], left = v[3], grant = v[4], expiry = v[5], wanted = v[6], round = v[7], ttl = v[8] }
end

local function out_of(t)
  return t.granted - t.returned - t.spent - t.lost
end

local function left_of(t, record)
  return record.round == t.round and record.left or 0
end

-- What nobody can read is none of ours: everything of these holders begins afresh, and what they hold is lost.
local function begin(h, off, last)
  if h.damaged then
    call('DEL', h.key)
  end
  h.record, h.totals = nil, {
    granted = 0, returned = 0, spent = 0, lost = 0, active = 0, count = 0, wants = 0, off = off, last = last, start = 0,
    round = 0, soonest = 0, till = 0
  }
end

local function read_holders(h)
  local seen = check(h, pcall_store('HMGET', h.key, 't', run))
  if seen and (seen[1] or seen[2]) then
    h.totals = seen[1] and totals_of(seen[1])
    h.record = seen[2] and record_of(seen[2])
    h.damaged = not h.totals or seen[2] and not h.record
  end
  if h.damaged or not h.totals then
    begin(h, 0, 0)
  end
end

-- TIME may step back; a portion lasts as long as it was said to.
local function clock_of(h)
  local t = h.totals
  local now = us + t.off
  if now < t.last - SECOND then
    t.off, now, h.changed = t.last - us, t.last, true
  end
  t.last = max(now, t.last)
  return t.last
end

-- All records by run, whether somebody could read them. Each is looked at for every lifetime of a portion, or less often.
local function each_record(h)
  local all, records = call('HGETALL', h.key), {}
  for i = 1, #all, 2 do
    if all[i] ~= 't' then
      local record = #all[i] == 16 and record_of(all[i + 1])
      if not record then
        return nil
      end
      record.run = all[i]
      records[#records + 1] = record
    end
  end
  return records
end

local function collect(h, now)
  local t, gone, held = h.totals, {}, 0
  local records = each_record(h)
  t.active, t.count, t.wants, t.soonest = 0, 0, 0, t.till
  for i = 1, records and #records or 0 do
    local record = records[i]
    held = held + left_of(t, record)
    if record.expiry <= now then
      t.lost = t.lost + left_of(t, record)
      held = held - left_of(t, record)
      gone[#gone + 1] = record.run
      if record.run == run then
        h.record = nil
      end
    else
      t.count, t.wants, t.soonest = t.count + 1, t.wants + record.wanted, min(t.soonest, record.expiry)
      t.active = t.active + (record.wanted > 0 and 1 or 0)
    end
  end
  if not records or held ~= out_of(t) then
    h.damaged, h.changed = true, true
    begin(h, t.off, t.last)
  elseif #gone > 0 then
    h.changed = true
    call('HDEL', h.key, unpack(gone))
  end
end

-- Max-min (P45): the least wanted first, each at most an equal part of what those before it left. The last of them get what does not
-- divide; of those that want the same it is another one each time.
local function share_of(h, capacity, wanted, version)
  local records, wants = each_record(h) or {}, {}
  for i = 1, #records do
    if records[i].run ~= run and records[i].wanted > 0 then
      wants[#wants + 1] = { run = records[i].run, wanted = records[i].wanted }
    end
  end
  wants[#wants + 1] = { run = run, wanted = wanted }
  table.sort(wants, function(x, y)
    return x.run < y.run
  end)
  for i = 1, #wants do
    wants[i].place = (i - 1 + version) % #wants
  end
  table.sort(wants, function(x, y)
    return x.wanted < y.wanted or x.wanted == y.wanted and x.place < y.place
  end)
  for i = 1, #wants do
    local part = min(wants[i].wanted, floor(capacity / (#wants - i + 1)))
    if wants[i].run == run then
      return part
    end
    capacity = capacity - part
  end
end

-- What a process saw of the key says more than the store has: writes are lost, and the worse of the two counts (4.3).
local function is_less_than_seen(it, seen_version, seen_used, seen_at)
  if seen_version <= it.ver or it.waits then
    return false
  end
  it.ver = seen_version
  local used = min(seen_used, it.most)
  if it.kind == 102 then
    used = it.start <= seen_at and seen_at < it.stop and used or 0
  else
    local back = max(0, it.at - seen_at) * it.n
    used = back >= used * it.p and 0 or used - (back - back % it.p) / it.p
  end
  if used <= it.used then
    return false
  end
  it.used, it.rem = used, 0
  return true
end

local function put_holders(h, now, ...)
  call('HSET', h.key, 't', pack(TOTALS, 116, h.totals.granted, h.totals.returned, h.totals.spent, h.totals.lost,
    h.totals.active, h.totals.count, h.totals.wants, h.totals.off, h.totals.last, h.totals.start, h.totals.round,
    h.totals.soonest, h.totals.till), ...)
  call('PEXPIRE', h.key, lifetime(h.totals.till - now))
end

local function put_limit(it, t, now)
  it.till, it.lends = us + t.till - now, true
  kinds[it.kind].save(it)
end

-- What is out as the records say, which outlive the limit's value where that was lost. It is used, at least.
local function join(it, t)
  local stored = it.out
  it.out = min(out_of(t), max(it.used, it.most))
  if it.used <= it.out then
    it.used, it.rem = it.out, 0
  end
  return it.out ~= stored
end

local function report(it, t, record, used, give)
  record.left = left_of(t, record)
  local spent = min(used, record.left)
  local returned = min(give, record.left - spent)
  record.left = record.left - spent - returned
  t.spent, t.returned = t.spent + spent, t.returned + returned
  it.out = max(0, it.out - spent - returned)
  it.used = max(it.out, it.used - returned)
  it.rem = it.used > it.out and it.rem or 0
end

-- What is wanted takes the place of what was; a report wants as much as before, and who gives back no more than it has.
local function want_of(t, record, want, give, chunk)
  local wanted = record.left
  if want > 0 then
    wanted = min(record.left + want, max(chunk, record.left))
  elseif give == 0 then
    wanted = max(record.left, record.wanted)
  end
  t.wants = t.wants + wanted - record.wanted
  t.active = t.active + (wanted > 0 and 1 or 0) - (record.wanted > 0 and 1 or 0)
  record.wanted = wanted
end

local function grant(it, h, record, want, most, chunk)
  local t, rest = h.totals, max(0, it.most - it.used)
  local granted = min(want, chunk - record.left, most - it.out, rest, max(1, floor(rest / (2 * max(1, t.active)))))
  local capacity = min(most, rest + it.out)
  if granted > 0 and t.wants > capacity and record.left + granted > floor(capacity / t.active) then
    granted = min(granted, share_of(h, capacity, record.wanted, it.ver) - record.left)
  end
  granted = max(0, granted)
  record.left, record.grant, t.granted = record.left + granted, granted, t.granted + granted
  it.out, it.used = it.out + granted, it.used + granted
  if t.granted > WHOLE then
    t.granted, t.returned, t.spent, t.lost = out_of(t), 0, 0, 0
  end
end

local function reply_of(it, flags, granted, left, ttl)
  it.cost = 1
  local remaining, retry = kinds[it.kind].report(it, false)
  if it.kind == 98 and it.out >= it.most then
    retry = -1
  end
  leave(it)
  return { flags, granted, left, ttl, remaining, retry, it.kind == 102 and it.stop - us or -1, it.waits and 0 or it.ver,
    it.used, it.at }
end

local function message(it, h, words)
  local most, chunk, duration, grace, seq, used, give, want, seen_version, seen_used, seen_at = unpack_struct(WORDS, words)
  kinds[it.kind].read(it)
  read_holders(h)
  local now = clock_of(h)
  if h.totals.start ~= it.start then
    h.changed = h.changed or out_of(h.totals) > 0
    h.totals.lost = h.totals.lost + out_of(h.totals)
    h.totals.start, h.totals.round = it.start, h.totals.round + 1
  end
  if h.totals.count > 0 and h.totals.soonest <= now then
    collect(h, now)
  end
  local t, record = h.totals, h.record
  if it.is_there and not it.damaged and it.out < out_of(t) then
    -- Decisions went on without what is out: `till` had passed by TIME, which may have stepped back since, or the contract was not
    -- leased for a while. Records that are still alive by their own clock are over.
    t.lost, t.round, h.changed = t.lost + out_of(t), t.round + 1, true
  end
  t.start = it.start
  local changed = join(it, t) or h.changed or it.moved
  local flags = (it.damaged or h.damaged) and 8 or 0
  local ttl = it.kind == 102 and max(0, min(duration, it.stop - us)) or duration
  local is_done = record and seq <= record.seq
  if is_done or not record and t.count >= HOLDERS_MAX then
    if changed then
      put_limit(it, t, now)
      put_holders(h, now)
    end
    if not is_done then
      return reply_of(it, flags, 0, 0, ttl)
    end
    return reply_of(it, flags + (seq < record.seq and 1 or 2), record.grant, left_of(t, record), record.ttl)
  end

  if not record then
    record, t.count = { left = 0, wanted = 0 }, t.count + 1
  else
    if is_less_than_seen(it, seen_version, seen_used, seen_at) then
      flags = flags + 16
    end
    report(it, t, record, used, give)
  end
  want_of(t, record, want, give, chunk)
  grant(it, h, record, want, most, chunk)
  local expiry = now + ttl + grace
  t.soonest, t.till = t.count > 1 and min(t.soonest, expiry) or expiry, max(t.till, expiry)
  put_limit(it, t, now)
  put_holders(h, now, run,
    pack(RECORD, 107, seq, record.left, record.grant, expiry, record.wanted, t.round, ttl) .. label)
  return reply_of(it, flags, record.grant, record.left, ttl)
end

local reply = {}
for i = 1, count do
  local fields = message(items[i], { key = KEYS[count + i] }, string.sub(ARGV[first + i - 1], -WORDS_LEN))
  for place = 1, #fields do
    reply[#reply + 1] = fields[place]
  end
end
return reply
