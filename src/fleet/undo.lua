-- SPDX-License-Identifier: Apache-2.0
--
-- undo.lua - what one decision charged is given back strictly, with its permits and the ids of its retries.
--
-- Once: the key behind those of the items and their retries says that it was done, for a minute. Reply: 1.
if count == 0 or not call('SET', record_key, '1', 'PX', 60000, 'NX') then
  return 1
end
for i = 1, count do
  local it = items[i]
  local is = kinds[it.kind]
  is.read(it)
  if it.is_there and not it.damaged then
    is.undo(it)
    local keep = is.rewrite or is.save
    keep(it)
  end
  leave(it)
  if it.retry then
    call('DEL', it.retry)
  end
end
return 1
