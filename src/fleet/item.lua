-- SPDX-License-Identifier: Apache-2.0
--
-- item.lua - what a call says, and what every kind of limit needs: items, the clock, expiry, values that are none of ours.
--
-- KEYS: the items' keys, then the retry keys of the items that have one, in their order, then the key of the reservation.
-- ARGV[1]: the head, <BBddddd and an id or nothing:
--     'h', flags (1: time says what the clock is; 2: items say when they were charged; 4: a value keeps the n and p that it
--     has), time in us, hold of a reservation in us, verb, cost of a settlement, 0
-- ARGV[2..]: an item each, <BBddddd and a tail:
--     kind       'b' bucket, 'f' fixed window, 's' sliding window, 'l' sliding log, 'c' concurrency
--     flags      1 refusals are charged   2 watched   4 has a retry key   8 starts empty where its state was lost
--                16 a settlement changes it   32 its ticks are ms   64 portions of it are leased (lease.lua)
--     cost, most (burst, count, permits), debt
--     n          buckets: n tokens come back in p ticks; fixed windows: their family, another one begins afresh:
--                0 epoch, 1 first request, else calendar
--     p          ticks; windows and logs: their length; concurrency: hold
--     tail       with 4: how long a retry is free, us;  with 8: when the state was lost, us;  with 8 and 64: how long a portion may
--                outlive its store, us;  with the head's 2: the stamp of the charge;  calendars: where the window before, this
--                one, the next and the one after it begin, us
--
-- Numbers are doubles, whole and below 2^52; the client refuses limits that would need more. Buckets and sliding windows count in
-- ticks, for they multiply; the others in us. Every state is a string of fixed length that begins with its kind (a capital where
-- ticks are ms), a list, or a sorted set; see each kind.
local WHOLE = 4503599627370496
local SECOND = 1000000
local TEN_YEARS = 315569520000000
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local call, pcall_store, pack, unpack_struct = redis.call, redis.pcall, struct.pack, struct.unpack

local head_flags, head_time, head_hold, verb, head_cost, id = 0, 0, 0, 116, 0, ''
local first = 1
if kind == 104 then
  head_flags, head_time, head_hold, verb, head_cost = flags, cost, most, debt, n
  id = string.sub(ARGV[1], 43)
  first = 2
end
local margin = 1000
if head_flags % 2 == 1 then
  us = head_time
  margin = 3600000
elseif not us then
  local time = call('TIME')
  us = time[1] * 1000000 + time[2]
end

local function bit_of(number, bit)
  return number % (2 * bit) >= bit
end

local function is_whole(x)
  return x >= 0 and x <= 2 * WHOLE and x % 1 == 0
end

local items, wanted, count = {}, {}, #ARGV - first + 1
local beside = count
local has_stamps, keeps = bit_of(head_flags, 2), bit_of(head_flags, 4)
for i = 1, count do
  local blob, at = ARGV[first + i - 1], 43
  local kind_of, flags_of, cost_of, most_of, debt_of, n_of, p_of = unpack_struct('<BBddddd', blob)
  local unit = bit_of(flags_of, 32) and 1000 or 1
  local it = {
    key = KEYS[i], kind = kind_of, flags = flags_of, cost = cost_of, most = most_of, debt = debt_of, n = n_of, p = p_of,
    unit = unit, now = unit == 1 and us or floor(us / unit), over = 0, at = 0, used = 0, rem = 0, start = 0, stop = 0,
    out = 0, ver = 0, till = 0, pause = 0, is_there = false, damaged = false, wrote = false, known = false, charged = false,
    outcome = 0, keeps = keeps
  }
  wanted[kind_of] = true
  if flags_of > 0 then
    it.charges, it.watched = bit_of(flags_of, 1), bit_of(flags_of, 2)
    if bit_of(flags_of, 4) then
      beside = beside + 1
      it.retry = KEYS[beside]
      it.free_within, at = unpack_struct('<d', blob, at)
    end
    if bit_of(flags_of, 8) then
      it.began, at = unpack_struct('<d', blob, at)
      it.began = min(it.began, us)
      if flags_of >= 64 then
        it.pause, at = unpack_struct('<d', blob, at)
      end
    end
    it.leased = flags_of >= 64
  end
  if has_stamps then
    it.charged_at, at = unpack_struct('<d', blob, at)
  end
  if kind_of == 102 and n_of > 1 then
    it.bounds = { unpack_struct('<dddd', blob, at) }
  end
  items[i] = it
end
local record_key = KEYS[beside + 1]

-- The most that a count reaches: refusals that are charged may fill it twice.
local function most_of(it)
  return it.charges and 2 * it.most or it.most
end

-- A reply that is an error is one of the type, and then nothing of ours; or none that we could decide about.
local function check(it, reply)
  if type(reply) == 'table' and reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then
      error(reply)
    end
    it.is_there, it.damaged = true, true
    return nil
  end
  return reply
end

-- The value of a key that holds `len` bytes, or `long` where portions are out; nil: absent, or damaged.
local function text_of(it, len, long)
  local seen = check(it, pcall_store('GET', it.key))
  if not seen then
    return nil
  end
  it.is_there = true
  if #seen == len or #seen == long then
    return seen
  end
  it.damaged = true
  return nil
end

local function lifetime(span)
  return max(1, ceil(span / 1000)) + margin
end

local function put(it, value, span)
  call('SET', it.key, value, 'PX', lifetime(span))
  it.wrote = true
end

local kinds = {}

-- For what is refused or looked at. No key stays without expiry, and nothing that is none of ours stays at all.
local function leave(it)
  if it.wrote then
    return
  end
  if it.damaged then
    call('DEL', it.key)
  elseif it.is_there and call('PTTL', it.key) == -1 then
    call('PEXPIRE', it.key, lifetime(kinds[it.kind].span(it)))
  end
end

local function ticks(it, span)
  return span < 0 and -1 or ceil(span / it.unit)
end
