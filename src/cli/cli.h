// SPDX-License-Identifier: Apache-2.0
/*
 * cli.h - what every command of the program shares: exit statuses, the form of a mistake, the contract it works on.
 *
 * Answers go to standard output, everything else to standard error. A mistake is one exact line with a cure.
 */
#ifndef WEIR_CLI_CLI_H
#define WEIR_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "weir_contract.h"

/* The same for every command. */
enum exit_status {
    EXIT_YES = 0,       /* allowed, test passed, contract good */
    EXIT_NO = 1,        /* refused, test failed, lint found something */
    EXIT_WRONG = 2,     /* wrong use, or a bad contract or test file */
    EXIT_UNDECIDED = 3, /* the server is unreachable, or the decision is `refused` */
};

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; gives the exit status */
    const char *summary;
};

int cmd_serve(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_lint(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_fleet(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

/* Print `weir COMMAND: MESSAGE` as one line on standard error; control bytes of what a user typed become `?`. */
void complain(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same line without who says it: progress. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether this stream is a terminal of somebody who has not set NO_COLOR. */
bool wants_colour(FILE *stream);

/* How alike two words are: edits from one to the other; words of 40 letters and more are unlike everything. */
unsigned word_distance(const char *x, const char *y);

/* The contract to work on when none was named: ./weir.yaml, then /etc/weir/weir.yaml; else complains, NULL. */
const char *contract_default(const char *command);

/* Whether there is one of these. */
bool contract_is_there(void);

/*
 * Load `path` ("-": standard input; NULL: contract_default()). A bad one is told with its diagnostics, and NULL; a
 * good one's warnings are told where `warns` (a review wants them, a single decision does not). Shared limits are counted in
 * this process, which stands for the whole fleet. The caller frees it.
 */
struct weir_contract *contract_open(const char *command, const char *path, bool warns);

/* The same as a server loads it: limits of scope: fleet are in the store, which the caller looks for. */
struct weir_contract *contract_open_shared(const char *command, const char *path);

/* The instant at which the command began: what is decided here is decided then, and nothing was counted before. */
weir_ns cli_now(void);

/* Do nothing until weir_now() has reached `at`. */
void cli_sleep_until(weir_ns at);

#endif
