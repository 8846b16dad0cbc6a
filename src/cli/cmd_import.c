// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_import.c - `weir import`: the library translates, this names what it reads. A contract is written whole or not at
 * all, so the output may go straight into a file.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"

static const char about[] = "Write a contract that admits what a foreign configuration admits:\n"
                            "  ratelimit  a YAML file of envoyproxy/ratelimit, a ConfigMap, or a folder\n"
                            "  nginx      limit_req and limit_conn of an nginx configuration, with zones\n"
                            "A comment says where it differs; what cannot be said is refused with its place.\n";

static const struct {
    const char *name;
    enum weir_foreign kind;
} kinds[] = { { "ratelimit", WEIR_FOREIGN_RATELIMIT }, { "nginx", WEIR_FOREIGN_NGINX } };

static int import_from(enum weir_foreign kind, const char *path)
{
    struct weir_diagnostics *diagnostics = NULL;
    int error = weir_contract_import(kind, path, stdout, &diagnostics);
    weir_diagnostics_print(diagnostics, stderr, wants_colour(stderr));
    if (error != 0 && weir_diagnostics_count(diagnostics) == 0)
        complain("import", "%s: %s", path, weir_error_text(error));
    weir_diagnostics_free(diagnostics);
    return error == 0 ? EXIT_YES : EXIT_WRONG;
}

int cmd_import(int argc, char **argv)
{
    const struct usage usage = { "import", "ratelimit|nginx PATH", about, NULL, 0 };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    if (operands != 2) {
        complain("import", "give the kind and the path: weir import ratelimit|nginx PATH");
        return EXIT_WRONG;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            return import_from(kinds[i].kind, argv[2]);
    complain("import", "%.40s: there is ratelimit and nginx", argv[1]);
    return EXIT_WRONG;
}
