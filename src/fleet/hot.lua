-- SPDX-License-Identifier: Apache-2.0
--
-- hot.lua - the ordinary decision: one bucket, its state as it should be.
--
-- Idea: TIME, GET, SET and nothing else, before a single function is made. Whatever is out of the ordinary (a changed rate, a
-- clock that stepped back, a value that is none of ours, a refusal that is charged) falls through to the rest of the script, which
-- begins anew.
--
-- ARGV[1] is the only item then; else it is a head of the same shape, told apart by its first byte.
if kind == 98 and flags < 2 and cost > 0 and n > 0 and not ARGV[2] then
  local time = redis.call('TIME')
  us = time[1] * 1000000 + time[2]
  local seen = redis.pcall('GET', KEYS[1])
  local tag, used, rem, last, sn, sp = 98, 0, 0, us, n, p
  if seen then
    if #seen == 41 then
      tag, used, rem, last, sn, sp = struct.unpack('<Bddddd', seen)
    else
      tag = 0
    end
  end
  local elapsed = us - last
  local fits = tag == 98 and sn == n and sp == p and used >= 0 and used * p <= 9007199254740992 and rem >= 0 and rem < p
  if fits and last >= 0 and elapsed >= 0 and (used + rem + last) % 1 == 0 then
    if elapsed * n >= used * p then
      used, rem = 0, 0
    else
      local back = elapsed * n + rem
      rem = back % p
      used = used - (back - rem) / p
      if used <= 0 then
        used, rem = 0, 0
      end
    end
    if used + cost <= most then
      used = used + cost
      local full = math.ceil((used * p - rem) / n)
      redis.call('SET', KEYS[1], struct.pack('<Bddddd', 98, used, rem, us, n, p), 'PX', math.ceil(full / 1000) + 1000)
      return { 16, most - used, 0, full, us }
    elseif flags == 0 and cost <= most and redis.call('PTTL', KEYS[1]) ~= -1 then
      local full, over = used * p - rem, (used + cost - most) * p - rem
      return { 1, math.max(0, most - used), math.ceil(over / n), math.ceil(full / n), us }
    end
  end
end
