// SPDX-License-Identifier: Apache-2.0
/* entry.c - what the entries of a descriptor are called as attributes. */
#include "rule/entry.h"

#include <stdio.h>

/* Most entries are the first of their name, and an imported one the ninth at most: "-9". Longer numbers cut the name. */
#define NUMBER_ROOM 2

size_t entry_spell(struct slice wanted, size_t max, char out[WEIR_ATTRIBUTE_NAME_MAX])
{
    size_t len = 0;
    char first = wanted.len == 0 ? '-' : ascii_lower(wanted.at[0]);
    if (first < 'a' || first > 'z') {
        out[len++] = 'x';
        if (first >= '0' && first <= '9')
            out[len++] = '-';
    }
    for (size_t i = 0; i < wanted.len && len < max && len < WEIR_ATTRIBUTE_NAME_MAX; i++) {
        char c = ascii_lower(wanted.at[i]);
        out[len++] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
    }
    return len;
}

/* Those that a request has of itself, and then those that say which descriptor it is. */
static const struct builtin {
    struct slice name;
    const char *text;
} builtins[] = {
#define BUILTIN(text) \
    { \
        { text, sizeof text - 1 }, text \
    }
    BUILTIN("ip"),    BUILTIN("method"),     BUILTIN("host"),   BUILTIN("path"),
    BUILTIN("query"), BUILTIN("request-id"), BUILTIN("domain"), BUILTIN("descriptor"),
#undef BUILTIN
};
#define MEANING_COUNT 6

static const char *find_builtin(struct slice name, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_equals(name, builtins[i].name))
            return builtins[i].text;
    return NULL;
}

bool entry_is_builtin(struct slice name)
{
    return find_builtin(name, sizeof builtins / sizeof *builtins) != NULL;
}

const char *entry_meaning(struct slice key)
{
    char name[WEIR_ATTRIBUTE_NAME_MAX];
    size_t len = entry_spell(key, sizeof name, name);
    if (slice_equals((struct slice){ name, len }, SLICE("remote-address")))
        return "ip";
    return find_builtin((struct slice){ name, len }, MEANING_COUNT);
}

size_t entry_name(struct slice key, unsigned number, char out[WEIR_ATTRIBUTE_NAME_MAX])
{
    static const char apart[] = "entry-";
    char suffix[12] = "";
    size_t len = entry_spell(key, WEIR_ATTRIBUTE_NAME_MAX - NUMBER_ROOM, out);
    if (entry_is_builtin((struct slice){ out, len })) { /* short: there is room */
        memmove(out + sizeof apart - 1, out, len);
        memcpy(out, apart, sizeof apart - 1);
        len += sizeof apart - 1;
    }
    if (number == 1)
        return len;
    size_t suffix_len = (size_t)snprintf(suffix, sizeof suffix, "-%u", number);
    if (len + suffix_len > WEIR_ATTRIBUTE_NAME_MAX)
        len = WEIR_ATTRIBUTE_NAME_MAX - suffix_len;
    memcpy(out + len, suffix, suffix_len);
    return len + suffix_len;
}
