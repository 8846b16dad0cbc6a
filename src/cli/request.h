// SPDX-License-Identifier: Apache-2.0
/*
 * request.h - NAME=VALUE arguments as the attributes of a request, and the CONTRACT among them.
 */
#ifndef WEIR_CLI_REQUEST_H
#define WEIR_CLI_REQUEST_H

#include "cli/cli.h"

struct cli_request {
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX]; /* values point into the arguments */
    char names[WEIR_ATTRIBUTES_MAX][WEIR_ATTRIBUTE_NAME_MAX + 1];
    size_t count;
};

void cli_request_init(struct cli_request *request);

/* Add one NAME=VALUE; false after complaining. */
bool cli_request_add(struct cli_request *request, const char *command, const char *pair);

/* Read operands: the first without `=` is the contract, all others are attributes. False after complaining. */
bool cli_request_read_operands(struct cli_request *request, const char *command, char **operands, int count,
                               const char **contract);

#endif
