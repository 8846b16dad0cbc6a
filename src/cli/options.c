// SPDX-License-Identifier: Apache-2.0
/*
 * options.c - the parser and the help text, both views of one table.
 */
#include "cli/options.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "sim/instant.h"

/* Longest name of an option, and of its variable. */
#define NAME_MAX_LEN 40

/* Where help lines wrap. */
#define HELP_COLUMNS 80

/* A name as its environment variable: tls-cert is WEIR_TLS_CERT. */
static void variable_name(const char *name, char out[NAME_MAX_LEN + 6])
{
    size_t at = 0;
    memcpy(out, "WEIR_", 5);
    for (at = 5; *name != '\0' && at < NAME_MAX_LEN + 5; name++, at++)
        out[at] = *name == '-' ? '_' : (char)(*name >= 'a' && *name <= 'z' ? *name - 32 : *name);
    out[at] = '\0';
}

/* ---- Help ------------------------------------------------------------------------------------------------ */

/* Print a piece of the usage line, on a new line under the operands where it would not fit. */
static void print_piece(const char *piece, int indent, int *column)
{
    int len = (int)strlen(piece);
    if (*column + 1 + len > HELP_COLUMNS) {
        printf("\n%*s", indent, "");
        *column = indent;
    }
    printf(" %s", piece);
    *column += 1 + len;
}

static void print_synopsis(const struct usage *usage)
{
    int indent = printf("usage: weir %s", usage->command);
    int column = indent;
    if (usage->operands[0] != '\0')
        print_piece(usage->operands, indent, &column);
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct option *option = &usage->options[i];
        if (option->kind == OPTION_LATER)
            continue;
        char piece[2 * NAME_MAX_LEN];
        (void)snprintf(piece, sizeof piece, "[--%s%s%s]%s", option->name, option->value == NULL ? "" : " ",
                       option->value == NULL ? "" : option->value, option->kind == OPTION_LIST ? "..." : "");
        print_piece(piece, indent, &column);
    }
    putchar('\n');
}

/* What an option does stands in one column; behind a long name it begins a line of its own. */
static void print_option(const char *head, const char *help)
{
    enum { COLUMN = 20 };
    if (strlen(head) <= COLUMN)
        printf("  %-*s %s", COLUMN, head, help);
    else
        printf("  %s\n  %-*s %s", head, COLUMN, "", help);
}

static void print_help(const struct usage *usage)
{
    print_synopsis(usage);
    printf("\n%s\noptions:\n", usage->about);
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct option *option = &usage->options[i];
        if (option->kind == OPTION_LATER)
            continue;
        char head[2 * NAME_MAX_LEN];
        char variable[NAME_MAX_LEN + 6];
        variable_name(option->name, variable);
        (void)snprintf(head, sizeof head, "--%s%s%s", option->name, option->value == NULL ? "" : " ",
                       option->value == NULL ? "" : option->value);
        print_option(head, option->help);
        if (option->kind != OPTION_ACT)
            printf(" [%s]", variable);
        putchar('\n');
    }
    print_option("-h, --help", "this text");
    putchar('\n');
}

/* ---- Values ---------------------------------------------------------------------------------------------- */

static bool set_number(const struct usage *usage, const struct option *option, const char *spelt,
                       const char *value)
{
    uint64_t number;
    if (slice_to_u64(slice_of(value), option->max, &number) && number >= option->min) {
        *(uint64_t *)option->into = number;
        return true;
    }
    complain(usage->command, "%s: '%s' is not an integer from %llu to %llu", spelt, value,
             (unsigned long long)option->min, (unsigned long long)option->max);
    return false;
}

/* 1500 ms as "1s500ms": a length of time as it may be typed. */
static void spell_duration(weir_ns length, char out[64])
{
    static const struct {
        const char *unit;
        weir_ns length;
    } steps[] = {
        { "d", WEIR_DAY },          { "h", WEIR_HOUR },         { "m", WEIR_MINUTE }, { "s", WEIR_SECOND },
        { "ms", WEIR_MILLISECOND }, { "us", WEIR_MICROSECOND }, { "ns", 1 },
    };
    size_t len = (size_t)snprintf(out, 64, "%s", length == 0 ? "0s" : "");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (length >= steps[i].length)
            len += (size_t)snprintf(out + len, 64 - len, "%llu%s",
                                    (unsigned long long)(length / steps[i].length), steps[i].unit);
        length %= steps[i].length;
    }
}

/* A fraction of one unit, as our own answers print times: 1.5s. False where it is none, or not a whole number of ns. */
static bool fraction_parse(struct slice text, weir_ns *out)
{
    char digits[24], one[16];
    size_t at = 0, len = 0, behind = 0;
    bool has_dot = false;
    for (; at < text.len && (text.at[at] == '.' || (text.at[at] >= '0' && text.at[at] <= '9')); at++) {
        if ((text.at[at] == '.' && has_dot) || len == 18)
            return false;
        behind += has_dot;
        if (text.at[at] != '.')
            digits[len++] = text.at[at];
        has_dot = has_dot || text.at[at] == '.';
    }
    struct slice unit = { text.at + at, text.len - at };
    weir_ns length, number = 0, parts = 1;
    if (!has_dot || behind == 0 || unit.len > 2)
        return false;
    (void)snprintf(one, sizeof one, "1%.*s", (int)unit.len, unit.at);
    if (!duration_parse(slice_of(one), &length))
        return false;
    for (size_t i = 0; i < len; i++)
        number = 10 * number + (weir_ns)(digits[i] - '0');
    for (; behind > 0; behind--)
        parts *= 10;
    weir_u128_ whole = (weir_u128_)number * length;
    *out = (weir_ns)(whole / parts);
    return whole % parts == 0 && whole / parts < WEIR_NO_TIME;
}

static bool set_duration(const struct usage *usage, const struct option *option, const char *spelt,
                         const char *value)
{
    char least[64], most[64];
    weir_ns length;
    if (duration_parse(slice_of(value), &length) && length >= option->min && length <= option->max) {
        *(uint64_t *)option->into = length;
        return true;
    }
    if (fraction_parse(slice_of(value), &length) && length >= option->min && length <= option->max) {
        spell_duration(length, most);
        complain(usage->command, "%s: '%.100s' has a fraction, and durations have none: write %s", spelt, value,
                 most);
        return false;
    }
    spell_duration(option->min, least);
    spell_duration(option->max, most);
    complain(usage->command, "%s: '%.100s' is not a duration from %s to %s, such as 200ms, 5s or 1m30s", spelt,
             value, least, most);
    return false;
}

/* Give an option its value. `spelt` is how the user wrote it, for the complaint. */
static bool set_value(const struct usage *usage, const struct option *option, const char *spelt,
                      const char *value)
{
    switch (option->kind) {
    case OPTION_FLAG:
    case OPTION_ACT:
        *(bool *)option->into = true;
        return true;
    case OPTION_NUMBER:
        return set_number(usage, option, spelt, value);
    case OPTION_DURATION:
        return set_duration(usage, option, spelt, value);
    case OPTION_TEXT:
        if (value[0] == '\0') {
            complain(usage->command, "%s: the value is empty; give %s", spelt, option->value);
            return false;
        }
        *(const char **)option->into = value;
        return true;
    case OPTION_MAYBE:
        *(const char **)option->into = value;
        return true;
    case OPTION_LIST: {
        struct option_list *list = option->into;
        if (list->count == OPTION_LIST_MAX) {
            complain(usage->command, "%s: more than %d values", spelt, OPTION_LIST_MAX);
            return false;
        }
        list->at[list->count++] = value;
        return true;
    }
    case OPTION_LATER:
        complain(usage->command, "%s: this version does not have it; see 'weir %s -h' for what it has", spelt,
                 usage->command);
        return false;
    }
    return false;
}

/* ---- The environment ------------------------------------------------------------------------------------- */

static bool set_list_from_environment(const struct usage *usage, const struct option *option,
                                      const char *variable, const char *value)
{
    static char storage[4096]; /* of all lists: they live as long as the environment would */
    static size_t used;
    size_t len = strlen(value) + 1;
    if (len > sizeof storage - used) {
        complain(usage->command, "%s: longer than %zu bytes; use --%s", variable, sizeof storage, option->name);
        return false;
    }
    char *text = memcpy(storage + used, value, len);
    used += len;
    char *rest = NULL;
    for (char *item = strtok_r(text, ",", &rest); item != NULL; item = strtok_r(NULL, ",", &rest))
        if (!set_value(usage, option, variable, item))
            return false;
    return true;
}

static bool set_from_environment(const struct usage *usage, const struct option *option)
{
    char variable[NAME_MAX_LEN + 6];
    variable_name(option->name, variable);
    const char *value = getenv(variable);
    if (value == NULL || value[0] == '\0' || option->kind == OPTION_ACT)
        return true;
    if (option->kind == OPTION_LIST)
        return set_list_from_environment(usage, option, variable, value);
    if (option->kind != OPTION_FLAG)
        return set_value(usage, option, variable, value);

    bool is_on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    if (!is_on && strcmp(value, "0") != 0 && strcmp(value, "false") != 0) {
        complain(usage->command, "%s: '%s' is not 1, true, 0 or false", variable, value);
        return false;
    }
    *(bool *)option->into = is_on;
    return true;
}

/* ---- Arguments ------------------------------------------------------------------------------------------- */

static const struct option *option_find(const struct usage *usage, const char *name, size_t len)
{
    for (size_t i = 0; i < usage->option_count; i++)
        if (strlen(usage->options[i].name) == len && memcmp(usage->options[i].name, name, len) == 0)
            return &usage->options[i];
    return NULL;
}

static void complain_unknown(const struct usage *usage, const char *spelt, size_t len)
{
    char name[NAME_MAX_LEN + 1];
    (void)snprintf(name, sizeof name, "%.*s", (int)len, spelt);
    const char *wanted = name + strspn(name, "-");
    const char *nearest = NULL;
    unsigned distance = 3; /* beyond two edits it would be guessing */
    for (size_t i = 0; i < usage->option_count; i++) {
        unsigned edits = word_distance(wanted, usage->options[i].name);
        if (usage->options[i].kind != OPTION_LATER && edits < distance) {
            distance = edits;
            nearest = usage->options[i].name;
        }
    }
    if (nearest != NULL)
        complain(usage->command, "%s: there is no such option; did you mean --%s?", name, nearest);
    else
        complain(usage->command, "%s: there is no such option; see 'weir %s -h'", name, usage->command);
}

/* Read the option at argv[*i], and its value. `given` marks it. */
static bool read_option(const struct usage *usage, int argc, char **argv, int *i, bool *given)
{
    const char *spelt = argv[*i];
    size_t len = strcspn(spelt, "=");
    const char *inline_value = spelt[len] == '=' ? spelt + len + 1 : NULL;
    const struct option *option = len > 2 && spelt[1] == '-' ? option_find(usage, spelt + 2, len - 2) : NULL;
    if (option == NULL) {
        complain_unknown(usage, spelt, len);
        return false;
    }
    char name[NAME_MAX_LEN + 3];
    (void)snprintf(name, sizeof name, "--%s", option->name);
    given[option - usage->options] = true;
    if (option->kind == OPTION_LATER)
        return set_value(usage, option, name, "");
    if (option->kind == OPTION_FLAG || option->kind == OPTION_ACT) {
        if (inline_value != NULL)
            complain(usage->command, "%s takes no value; write it without '=%s'", name, inline_value);
        return inline_value == NULL && set_value(usage, option, name, "");
    }
    if (inline_value != NULL)
        return set_value(usage, option, name, inline_value);
    bool has_value = *i + 1 < argc;
    if (option->kind == OPTION_MAYBE && (!has_value || argv[*i + 1][0] == '-'))
        return set_value(usage, option, name, "");
    if (!has_value) {
        complain(usage->command, "%s needs a value: --%s %s", name, option->name, option->value);
        return false;
    }
    return set_value(usage, option, name, argv[++*i]);
}

int options_parse(const struct usage *usage, int argc, char **argv, int *status)
{
    bool given[OPTION_LIST_MAX] = { false };
    int operands = 0;
    bool is_over = false;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            break;
        else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            print_help(usage);
            *status = EXIT_YES;
            return -1;
        }

    *status = EXIT_WRONG;
    for (int i = 1; i < argc; i++) {
        if (is_over || argv[i][0] != '-' || argv[i][1] == '\0')
            argv[1 + operands++] = argv[i];
        else if (strcmp(argv[i], "--") == 0)
            is_over = true;
        else if (!read_option(usage, argc, argv, &i, given))
            return -1;
    }
    for (size_t i = 0; i < usage->option_count; i++)
        if (!given[i] && !set_from_environment(usage, &usage->options[i]))
            return -1;
    return operands;
}
