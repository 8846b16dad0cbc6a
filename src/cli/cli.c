// SPDX-License-Identifier: Apache-2.0
/*
 * cli.c - the few things that every command does alike.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_LEN 2048

static void format_line(char line[LINE_MAX_LEN], const char *format, va_list arguments)
{
    int len = vsnprintf(line, LINE_MAX_LEN, format, arguments);
    for (int i = 0; i < len && i < LINE_MAX_LEN - 1; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    (void)fflush(stdout); /* so that on a terminal the answers before it come first */
}

void complain(const char *command, const char *format, ...)
{
    char line[LINE_MAX_LEN];
    va_list arguments;
    va_start(arguments, format);
    format_line(line, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "weir%s%s: %s\n", command[0] == '\0' ? "" : " ", command, line);
}

void tell(const char *format, ...)
{
    char line[LINE_MAX_LEN];
    va_list arguments;
    va_start(arguments, format);
    format_line(line, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "%s\n", line);
}

bool wants_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return (no_colour == NULL || no_colour[0] == '\0') && (terminal == NULL || strcmp(terminal, "dumb") != 0)
           && isatty(fileno(stream));
}

#define WORD_MAX 40

unsigned word_distance(const char *x, const char *y)
{
    size_t x_len = strlen(x);
    size_t y_len = strlen(y);
    unsigned row[WORD_MAX + 1]; /* edits from the first i letters of x to the first j of y */
    if (x_len >= WORD_MAX || y_len >= WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= y_len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= x_len; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= y_len; j++) {
            unsigned replaced = diagonal + (x[i - 1] != y[j - 1]);
            unsigned shifted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shifted ? replaced : shifted;
        }
    }
    return row[y_len];
}

static const char *find_default(void)
{
    static const char *const paths[] = { "./weir.yaml", "/etc/weir/weir.yaml" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (access(paths[i], F_OK) == 0)
            return paths[i];
    return NULL;
}

bool contract_is_there(void)
{
    return find_default() != NULL;
}

const char *contract_default(const char *command)
{
    const char *path = find_default();
    if (path == NULL)
        complain(command,
                 "there is no ./weir.yaml and no /etc/weir/weir.yaml; name a contract: weir %s CONTRACT",
                 command);
    return path;
}

weir_ns cli_now(void)
{
    static weir_ns began_at;
    if (began_at == 0)
        began_at = weir_now();
    return began_at;
}

void cli_sleep_until(weir_ns at)
{
    struct timespec until = { .tv_sec = (time_t)(at / WEIR_SECOND), .tv_nsec = (long)(at % WEIR_SECOND) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static struct weir_contract *open_as(const char *command, const char *path, bool warns,
                                     const struct weir_contract_options *options)
{
    struct weir_contract *contract = NULL;
    struct weir_diagnostics *diagnostics = NULL;
    if (path == NULL)
        path = contract_default(command);
    if (path == NULL)
        return NULL;
    int error = weir_contract_load(&contract, path, options, &diagnostics);
    (void)fflush(stdout);
    if (diagnostics != NULL && (error != 0 || warns))
        weir_diagnostics_print(diagnostics, stderr, wants_colour(stderr));
    if (error != 0 && weir_diagnostics_count(diagnostics) == 0)
        complain(command, "%s: %s", path, weir_error_text(error));
    weir_diagnostics_free(diagnostics);
    return error == 0 ? contract : NULL;
}

struct weir_contract *contract_open(const char *command, const char *path, bool warns)
{
    struct weir_contract_options options = { .lost_at = cli_now(), .fleet = WEIR_FLEET_ALONE };
    return open_as(command, path, warns, &options);
}

struct weir_contract *contract_open_shared(const char *command, const char *path)
{
    struct weir_contract_options options = { .lost_at = cli_now(),
                                             .fleet = WEIR_FLEET_SHARED,
                                             .has_store = true };
    return open_as(command, path, false, &options);
}
