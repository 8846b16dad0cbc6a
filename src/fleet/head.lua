-- SPDX-License-Identifier: Apache-2.0
--
-- head.lua - the first argument: a head, or the only item. All scripts begin with it; see item.lua.
local kind, flags, cost, most, debt, n, p = struct.unpack('<BBddddd', ARGV[1])
local us
