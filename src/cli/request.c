// SPDX-License-Identifier: Apache-2.0
/*
 * request.c - NAME=VALUE arguments.
 *
 * Names and values are judged by the contract (or the server), so that there is one set of rules; here only what
 * would not fit.
 */
#include "cli/request.h"

#include <string.h>

void cli_request_init(struct cli_request *request)
{
    request->count = 0;
}

bool cli_request_add(struct cli_request *request, const char *command, const char *pair)
{
    size_t len = strcspn(pair, "=");
    if (pair[len] != '=' || len == 0 || len > WEIR_ATTRIBUTE_NAME_MAX) {
        complain(command, "'%.200s': an attribute is NAME=VALUE, with a name of 1 to %d letters", pair,
                 WEIR_ATTRIBUTE_NAME_MAX);
        return false;
    }
    if (request->count == WEIR_ATTRIBUTES_MAX) {
        complain(command, "a request has at most %d attributes", WEIR_ATTRIBUTES_MAX);
        return false;
    }
    char *name = request->names[request->count];
    memcpy(name, pair, len);
    name[len] = '\0';
    request->attributes[request->count++] = (struct weir_attribute){ name, pair + len + 1, 0 };
    return true;
}

bool cli_request_read_operands(struct cli_request *request, const char *command, char **operands, int count,
                               const char **contract)
{
    for (int i = 0; i < count; i++) {
        if (strchr(operands[i], '=') != NULL) {
            if (!cli_request_add(request, command, operands[i]))
                return false;
        } else if (*contract == NULL) {
            *contract = operands[i];
        } else {
            complain(command, "'%.200s' is a second contract beside '%.200s'; attributes are NAME=VALUE",
                     operands[i], *contract);
            return false;
        }
    }
    return true;
}
