-- SPDX-License-Identifier: Apache-2.0
--
-- hot.lua - the ordinary decision: one bucket, its state as it should be, and the request passes.
--
-- Idea: TIME, GET, SET and nothing else, before a single function is made. Whatever is out of the ordinary (a refusal, a changed
-- rate, a clock that stepped back, a value that is none of ours) falls through to the rest of the script, which begins anew.
--
-- ARGV[1] is the only item then; else it is a head of the same shape, told apart by its first byte.
if kind == 98 and flags < 2 and cost > 0 and n > 0 then
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
  if tag == 98 and sn == n and sp == p and elapsed >= 0 and used >= 0 and rem >= 0 and rem < p then
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
    used = used + cost
    if used <= most then
      local full = math.ceil((used * p - rem) / n)
      redis.call('SET', KEYS[1], struct.pack('<Bddddd', 98, used, rem, us, n, p), 'PX', math.ceil(full / 1000) + 1000)
      return { 16, most - used, 0, full, us }
    end
  end
end
