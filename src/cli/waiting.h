// SPDX-License-Identifier: Apache-2.0
/*
 * waiting.h - `weir check CONTRACT --wait`: one request that waits in this process.
 */
#ifndef WEIR_CLI_WAITING_H
#define WEIR_CLI_WAITING_H

#include "weir_contract.h"

/*
 * As weir_contract_decide(), and where that denies, wait for up to request->wait as weir_contract_wait() lets it.
 *
 *   now     moves to the instant of the decision, and this call sleeps until the clock has reached it: so what is printed is
 *           the contract's doing alone, and the same on any machine.
 *   waited  0 where the decision came at once.
 */
int waiting_decide(const struct weir_contract *contract, const struct weir_request *request, weir_ns *now,
                   struct weir_answer *out, weir_ns *waited);

#endif
