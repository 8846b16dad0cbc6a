// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - one spelling for a host.
 */
#include "rule/host.h"

#include "weir_contract.h"

static bool is_host_byte(unsigned char c)
{
    switch (c) {
    case ',':
    case '/':
    case '\\':
    case '@':
    case '?':
    case '#':
    case 0x7f:
        return false;
    default:
        return c > ' ';
    }
}

/* Without `:port`. A port is digits or nothing; a second colon outside brackets means a bare IPv6 address. */
static struct slice without_port(struct slice text)
{
    size_t colon = text.len;
    while (colon > 0 && text.at[colon - 1] >= '0' && text.at[colon - 1] <= '9')
        colon--;
    if (colon == 0 || text.at[colon - 1] != ':')
        return text;
    struct slice host = { text.at, colon - 1 };
    bool is_bracketed = host.len > 0 && host.at[host.len - 1] == ']';
    if (!is_bracketed && host.len > 0 && memchr(host.at, ':', host.len) != NULL)
        return text;
    return host;
}

bool host_normalise(struct slice text, char *storage, struct slice *out)
{
    bool has_upper = false;
    if (text.len > WEIR_ATTRIBUTE_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_host_byte((unsigned char)text.at[i]))
            return false;
        has_upper |= text.at[i] >= 'A' && text.at[i] <= 'Z';
    }

    struct slice host = without_port(text);
    if (host.len > 0 && host.at[host.len - 1] == '.')
        host.len--;
    /* What is left of `.` or `:80` is nothing, and nothing is absent: a way out. Of `a..` or `a:1.` it is no name yet. */
    if (text.len > 0 && (host.len == 0 || host.at[host.len - 1] == '.' || without_port(host).len != host.len))
        return false;
    if (has_upper) {
        for (size_t i = 0; i < host.len; i++)
            storage[i] = ascii_lower(host.at[i]);
        host.at = storage;
    }
    *out = host;
    return true;
}
