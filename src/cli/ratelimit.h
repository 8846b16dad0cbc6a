// SPDX-License-Identifier: Apache-2.0
/*
 * ratelimit.h - the environment of envoyproxy/ratelimit, as options of ours.
 *
 * Idea: whoever changes over leaves the variables of his deployment as they are. What weir has is taken from them, unless an option
 * says it; what it has not is named with the reason, once, so that nothing is ignored in silence. They are read with
 * --ratelimit-config alone.
 */
#ifndef WEIR_CLI_RATELIMIT_H
#define WEIR_CLI_RATELIMIT_H

#include "net/ratelimit.h"
#include "net/server.h"

/*
 * Fill in what the options leave open. `folder`: of --ratelimit-config, "" where it has none. False: complained about. What it
 * fills in lives as long as the program.
 */
bool ratelimit_take_environment(const char *folder, bool is_compatible, struct server_options *server);

#endif
