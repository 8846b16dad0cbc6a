// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_test.c - `weir test`.
 */
#include "cli/cli.h"

int cmd_test(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    complain("test", "this version does not have it");
    return EXIT_WRONG;
}
