// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - the table of commands.
 */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"

static const struct command commands[] = {
    { "serve", cmd_serve, "answer requests at the doors of a contract" },
    { "check", cmd_check, "decide one request here, or ask a running server" },
    { "explain", cmd_explain, "say in plain English what a contract allows" },
    { "test", cmd_test, "play test files in virtual time" },
    { "lint", cmd_lint, "warn about what a contract probably does not mean" },
    { "import", cmd_import, "make a contract of a foreign configuration" },
    { "fleet", cmd_fleet, "look at the store that a fleet shares, and at its keys" },
    { "version", cmd_version, "print the version" },
    { "help", cmd_help, "print this text, or a command's" },
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

/* Commands that a later version brings. */
static const char *const later[] = { "replay", "simulate", "top", "bench" };

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void complain_unknown(const char *name)
{
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(later[i], name) == 0) {
            complain("", "%s: this version does not have it; see 'weir help' for what it has", name);
            return;
        }
    const char *nearest = NULL;
    unsigned distance = 3; /* beyond two edits it would be guessing */
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        unsigned edits = word_distance(name, commands[i].name);
        if (edits < distance) {
            distance = edits;
            nearest = commands[i].name;
        }
    }
    if (nearest != NULL)
        complain("", "%s: there is no such command; did you mean '%s'?", name, nearest);
    else
        complain("", "%s: there is no such command; see 'weir help'", name);
}

static void print_commands(void)
{
    printf("usage: weir COMMAND [ARGUMENTS]\n\nDecide whether the next request may pass.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("\n'weir COMMAND -h' tells a command's options.\n"
           "Exit status: 0 yes, 1 no, 2 wrong use or a bad contract, 3 could not decide.\n");
}

int cmd_help(int argc, char **argv)
{
    int status;
    const struct usage usage = { "help", "[COMMAND]", "Print what a command does, or the list of commands.\n",
                                 NULL, 0 };
    int count = options_parse(&usage, argc, argv, &status);
    if (count < 0)
        return status;
    if (count == 0) {
        print_commands();
        return EXIT_YES;
    }
    const struct command *command = command_find(argv[1]);
    if (command == NULL) {
        complain_unknown(argv[1]);
        return EXIT_WRONG;
    }
    char help[] = "-h";
    char *second = count > 1 ? argv[2] : help; /* "fleet status": a command's command has a help of its own */
    return command->run(count > 1 ? 3 : 2, (char *[]){ argv[1], second, help, NULL });
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        complain("", "no command; see 'weir help'");
        return EXIT_WRONG;
    }
    const char *name = argv[1];
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (command == NULL) {
        complain_unknown(name);
        return EXIT_WRONG;
    }
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);
    /* An answer that did not arrive (a full disk) is no answer. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain("", "standard output: %s", strerror(errno));
        return EXIT_UNDECIDED;
    }
    return status;
}
