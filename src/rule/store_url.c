// SPDX-License-Identifier: Apache-2.0
/*
 * store_url.c - whether `store: { url }` can be the address of a store, judged where the contract is read, with line and caret.
 *
 * The program that dials it reads it whole (parameters, names of hosts, escapes) and may still refuse it; whatever is refused here
 * is refused there, too. test_store_url.c holds the two together. No problem repeats what was written: with a forgotten `@` the
 * host is a password.
 */
#include "rule/store_url.h"

#include <string.h>

#define BYTES_MAX 2047
#define HOSTS_MAX 32

#define FORMS \
    "write where it is: redis://127.0.0.1:6379, rediss://, redis+unix:///PATH, " \
    "redis+sentinel://H1:P,H2:P/NAME or " \
    "redis+cluster://H1:P,H2:P"

enum kind { KIND_ONE, KIND_UNIX, KIND_SENTINEL, KIND_CLUSTER, KIND_COUNT };

static struct store_url_problem problem(const char *what, const char *cure)
{
    return (struct store_url_problem){ what, cure };
}

static const struct store_url_problem fine = { NULL, NULL };

/* What stands before the first `separator`; *rest is what stands behind it, with `at` NULL where there is none. */
static struct slice cut(struct slice text, char separator, struct slice *rest)
{
    const char *found = text.len == 0 ? NULL : memchr(text.at, separator, text.len);
    size_t len = found == NULL ? text.len : (size_t)(found - text.at);
    *rest = found == NULL ? (struct slice){ NULL, 0 } : (struct slice){ found + 1, text.len - len - 1 };
    return (struct slice){ text.at, len };
}

static bool has(struct slice text, char c)
{
    return text.len > 0 && memchr(text.at, c, text.len) != NULL;
}

/* KIND_COUNT: it begins as none. */
static enum kind read_scheme(const char *url, struct slice *rest)
{
    static const char *const schemes[] = { "redis", "rediss", "valkey", "valkeys" };
    static const char *const kinds[] = { "://", "+unix://", "+sentinel://", "+cluster://" };
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            size_t len = strlen(schemes[i]), kind = strlen(kinds[k]);
            if (strncmp(url, schemes[i], len) != 0 || strncmp(url + len, kinds[k], kind) != 0)
                continue;
            *rest = slice_of(url + len + kind);
            return (enum kind)k;
        }
    return KIND_COUNT;
}

static struct store_url_problem judge_bytes(const char *url)
{
    size_t len = strlen(url);
    if (len > BYTES_MAX)
        return problem("is longer than 2047 bytes", FORMS);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)url[i] <= ' ' || url[i] == 0x7f || url[i] == '#')
            return problem("holds a blank, a control byte or a #",
                           "write a blank in a password as %20, a # as %23, and nothing around it");
    return fine;
}

static struct store_url_problem judge_who(struct slice who)
{
    struct slice password;
    (void)cut(who, ':', &password);
    if (has(who, '@'))
        return problem("has two @ before the path", "write an @ in the user or the password as %40");
    if (password.len == 0)
        return problem("has no password before the @",
                       "write USER:PASSWORD@ or :PASSWORD@, or leave out the @ and "
                       "what stands before it");
    return fine;
}

static struct store_url_problem judge_host(struct slice place)
{
    struct slice port, host = cut(place, ':', &port);
    uint64_t number;
    if (place.len > 0 && place.at[0] == '[') {
        host = cut(place, ']', &port);
        if (port.at == NULL || (port.len > 0 && port.at[0] != ':'))
            return problem("has a [ without a ] that ends the host", "write an IPv6 address as in [::1]:6379");
        port = port.len == 0 ? (struct slice){ NULL, 0 } : (struct slice){ port.at + 1, port.len - 1 };
    } else if (has(port, ':')) {
        return problem("has a host with several colons", "write an IPv6 address in brackets, as in [::1]:6379");
    }
    if (host.len == 0)
        return problem("lacks a host", "write redis://HOST:PORT, as in redis://127.0.0.1:6379");
    if (port.at != NULL && (!slice_to_u64(port, UINT16_MAX, &number) || number == 0))
        return problem("has a port that is no number from 1 to 65535",
                       "mend it, or leave the colon out for the usual one");
    return fine;
}

static struct store_url_problem judge_hosts(struct slice places, enum kind kind)
{
    struct store_url_problem found = fine;
    size_t count = 0;
    if (kind == KIND_UNIX)
        return places.len == 0
                   ? fine
                   : problem("names a host for a Unix socket", "write redis+unix:///run/redis/redis.sock");
    if (kind == KIND_ONE && has(places, ','))
        return problem("names several hosts",
                       "write redis+cluster://H1:P,H2:P or redis+sentinel://H1:P,H2:P/NAME");
    do {
        found = judge_host(cut(places, ',', &places));
    } while (found.what == NULL && ++count <= HOSTS_MAX && places.at != NULL);
    if (count > HOSTS_MAX)
        return problem("names more than 32 hosts", "name a few: the others are found through them");
    return found;
}

static struct store_url_problem judge_db(struct slice text, enum kind kind)
{
    uint64_t db;
    if (!slice_to_u64(text, 65535, &db))
        return problem("has a database that is no number from 0 to 65535",
                       "write it as in redis://HOST:PORT/0");
    if (kind == KIND_CLUSTER && db != 0)
        return problem("has a database, and a Cluster has none but 0", "leave the number out");
    return fine;
}

/* What stands behind the slash that ends the hosts; `at` NULL: there is none. */
static struct store_url_problem judge_path(struct slice path, enum kind kind)
{
    struct slice db = path, name;
    if (kind == KIND_UNIX)
        return path.len > 0 ? fine
                            : problem("lacks the socket's path", "write redis+unix:///run/redis/redis.sock");
    if (kind != KIND_SENTINEL)
        return path.len == 0 ? fine : judge_db(path, kind);
    name = cut(path, '/', &db);
    if (name.len == 0)
        return problem("lacks the name that the Sentinels watch it under",
                       "write redis+sentinel://H1:P,H2:P/NAME");
    return db.at == NULL ? fine : judge_db(db, kind);
}

struct store_url_problem store_url_judge(const char *url)
{
    struct slice rest, query, path;
    enum kind kind = read_scheme(url, &rest);
    if (kind == KIND_COUNT)
        return problem("is no address of a store", FORMS);
    struct store_url_problem found = judge_bytes(url);
    if (found.what != NULL)
        return found;
    struct slice places = cut(cut(rest, '?', &query), '/', &path);
    if (has(path, '@') || has(query, '@'))
        return problem("has an @ behind a / or a ?",
                       "write / in a password as %2F, ? as %3F, and @ elsewhere as %40");
    const char *at = places.len == 0 ? NULL : memrchr(places.at, '@', places.len);
    if (at != NULL) {
        struct slice who = { places.at, (size_t)(at - places.at) };
        found = judge_who(who);
        places = (struct slice){ at + 1, places.len - who.len - 1 };
    }
    if (found.what == NULL)
        found = judge_hosts(places, kind);
    return found.what == NULL ? judge_path(path, kind) : found;
}
