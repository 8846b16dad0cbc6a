-- SPDX-License-Identifier: Apache-2.0
--
-- weir.lua - HAProxy's action lua.weir: asks weir whether a request may pass, and answers it where it may not.
--
--   global      lua-load-per-thread weir.lua URL MILLISECONDS open|closed
--   frontend    http-request lua.weir
--
-- Idea: weir is asked with headers that are all made here, from what HAProxy itself read, so nothing that a client wrote can pretend to be
-- somebody else's. The request waits meanwhile, its body untouched; others go on.
local url, patience, policy = ...
patience = tonumber(patience)
assert(url and patience and (policy == "open" or policy == "closed"), "weir.lua: write URL MILLISECONDS open|closed behind it")

-- Variables that http-response puts into the answer of a request that passes, and the fields of weir that they come from. With
-- `headers: draft` in the contract: ratelimit and ratelimit-policy.
local told = {
  ["txn.weir_limit"] = "ratelimit-limit",
  ["txn.weir_remaining"] = "ratelimit-remaining",
  ["txn.weir_reset"] = "ratelimit-reset",
}

-- Fields that belong to a connection, or that HAProxy writes itself.
local not_passed = { ["connection"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true, ["content-length"] = true }

local function undecided(txn)
  if policy == "open" then
    txn:set_var("txn.weir_open", 1) -- for logs: %[var(txn.weir_open)]
    return
  end
  local reply = txn:reply{ status = 503, reason = "Service Unavailable" }
  reply:add_header("content-type", "application/problem+json")
  reply:add_header("cache-control", "no-store")
  reply:add_header("retry-after", "1")
  reply:set_body('{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",'
    .. '"title":"No decision could be made","status":503}\n')
  txn:done(reply)
end

core.register_action("weir", { "http-req" }, function(txn)
  local answer = core.httpclient():get{
    url = url,
    timeout = patience,
    headers = {
      ["x-forwarded-method"] = { txn.sf:method() },
      ["x-forwarded-uri"] = { txn.sf:pathq() },
      ["x-forwarded-host"] = { txn.sf:req_hdr("host") },
      ["x-forwarded-for"] = { txn.sf:src() },
      -- What else the contract's `identity` reads, for instance: ["x-api-key"] = { txn.sf:req_hdr("x-api-key") },
    },
  }
  local status = answer and answer.status or 0
  -- Where nobody accepts the connection, HAProxy makes up a 503 itself; the one of weir, which is its word, is problem+json.
  local kind = answer and answer.headers and answer.headers["content-type"]
  local is_said = status == 503 and kind and kind[0] == "application/problem+json"
  if status == 0 or (status >= 500 and not is_said) then
    undecided(txn)
    return
  end
  if status == 200 then
    for variable, field in pairs(told) do
      local value = answer.headers[field]
      if value then
        txn:set_var(variable, value[0]) -- lists of headers begin at 0
      end
    end
    return
  end
  local reply = txn:reply{ status = status, reason = answer.reason }
  for name, values in pairs(answer.headers) do
    if not not_passed[name] then
      for _, value in pairs(values) do
        reply:add_header(name, value)
      end
    end
  end
  reply:set_body(answer.body or "")
  txn:done(reply)
end, 0)
