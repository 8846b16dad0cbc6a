// SPDX-License-Identifier: Apache-2.0
/*
 * options.h - a command's options as data: one table gives the parser, the help text and the environment variables.
 *
 * `--name VALUE` and `--name=VALUE`; a flag takes no value; `--` ends the options; options and operands mix. An
 * option that is absent is looked up as WEIR_NAME in the environment, unless it destroys something. Of an option given twice the last counts,
 * unless it is a list. Options that a later version brings have a row too, so that a script written for it is
 * refused with that reason rather than half obeyed.
 */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most values of one list, and most operands of a command that bounds them by this. */
#define OPTION_LIST_MAX 64

struct option_list {
    const char *at[OPTION_LIST_MAX];
    size_t count;
};

enum option_kind {
    OPTION_FLAG,     /* into: bool */
    OPTION_ACT,      /* a flag that destroys something: only typed, a variable that was left over must not */
    OPTION_TEXT,     /* into: const char * */
    OPTION_MAYBE,    /* the same, and where no value follows the text is empty */
    OPTION_NUMBER,   /* into: uint64_t, from min to max */
    OPTION_DURATION, /* into: uint64_t, ns from min to max; "5s", "1m30s" */
    OPTION_LIST,     /* into: struct option_list; in the environment the values are separated by commas */
    OPTION_LATER,    /* into nothing: this version does not have it */
};

struct option {
    enum option_kind kind;
    const char *name;  /* without the dashes */
    const char *value; /* what stands for the value in the help; NULL for a flag */
    const char *help;  /* one line; NULL for OPTION_LATER */
    void *into;
    uint64_t min, max;
};

struct usage {
    const char *command;
    const char *operands; /* as in the synopsis; "" for none */
    const char *about;    /* what the command does: lines of at most 80 columns, each with its end */
    const struct option *options;
    size_t option_count;
};

/*
 * Read the arguments. Operands (what is no option) are moved to the front of argv + 1, in order.
 *
 * Returns the number of operands, or -1 when there is nothing left to do: help was printed (*status is EXIT_YES) or
 * a mistake was complained about (EXIT_WRONG). Values point into argv or the environment.
 */
int options_parse(const struct usage *usage, int argc, char **argv, int *status);

#endif
