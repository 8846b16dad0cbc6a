// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_version.c - `weir version`.
 */
#include "cli/cli.h"
#include "cli/options.h"

int cmd_version(int argc, char **argv)
{
    int status;
    const struct usage usage = { "version", "", "Print the version.\n", NULL, 0 };
    int count = options_parse(&usage, argc, argv, &status);
    if (count < 0)
        return status;
    if (count > 0) {
        complain("version", "'%s': it takes no arguments", argv[1]);
        return EXIT_WRONG;
    }
    printf("weir " WEIR_VERSION "\n");
    return EXIT_YES;
}
