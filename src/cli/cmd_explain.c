// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_explain.c - `weir explain`: the library says it, this reads the arguments.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/request.h"

static const char about[] = "Say each limit of CONTRACT in plain English, with its worst case in numbers;\n"
                            "answers that are defaults are marked. With --request, also which limits that\n"
                            "request meets and why the others do not apply.\n";

int cmd_explain(int argc, char **argv)
{
    uint64_t replicas = 0;
    bool is_json = false;
    struct option_list pairs = { .count = 0 };
    const struct option options[] = {
        { OPTION_NUMBER, "replicas", "N", "processes that hold this contract", &replicas, 1, 1000000 },
        { OPTION_LIST, "request", "NAME=VALUE", "an attribute of a request", &pairs, 0, 0 },
        { OPTION_FLAG, "json", NULL, "one JSON object", &is_json, 0, 0 },
    };
    const struct usage usage = { "explain", "[CONTRACT]", about, options, sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;

    struct cli_request request;
    const char *path = NULL;
    cli_request_init(&request);
    for (size_t i = 0; i < pairs.count; i++)
        if (!cli_request_add(&request, "explain", pairs.at[i]))
            return EXIT_WRONG;
    /* `--request tenant=acme path=/v1/items`: what follows is part of the request. */
    if (!cli_request_read_operands(&request, "explain", argv + 1, operands, &path))
        return EXIT_WRONG;

    struct weir_contract *contract = contract_open("explain", path, true);
    if (contract == NULL)
        return EXIT_WRONG;
    const struct weir_request asked = { request.attributes, request.count, 1, true };
    const struct weir_explain_options explain = { (unsigned)replicas, is_json,
                                                  request.count > 0 ? &asked : NULL };
    struct weir_fault fault;
    int error = request.count > 0 ? weir_contract_validate(contract, &asked, &fault) : 0;
    if (error != 0)
        complain("explain", "%s", fault.message);
    else if ((error = weir_contract_explain(contract, &explain, stdout)) != 0
             && !ferror(stdout)) /* main says that */
        complain("explain", "%s", weir_error_text(error));
    weir_contract_free(contract);
    return error == 0 ? EXIT_YES : EXIT_WRONG;
}
