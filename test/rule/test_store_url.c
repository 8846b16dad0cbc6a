// SPDX-License-Identifier: Apache-2.0
/*
 * test_store_url.c - the contract's judgement of a store's address beside that of the program that dials it: what one of them
 * refuses the other refuses, but for what only the dialling one looks at.
 */
#include "fleet/url.h"
#include "rule/store_url.h"
#include "support/unit.h"

enum { BOTH, NEITHER, DIALLING };

static void both_judge_alike(void **state)
{
    (void)state;
    static const struct {
        const char *url, *what; /* how the problem begins; NULL: none is seen in the contract */
        int refused;
    } rows[] = {
        { "redis://h", NULL, NEITHER },
        { "valkeys://u:p@h:1/2", NULL, NEITHER },
        { "redis://:p%40q@h", NULL, NEITHER },
        { "redis://h/", NULL, NEITHER },
        { "redis://h:65535/65535", NULL, NEITHER },
        { "redis://[::1]", NULL, NEITHER },
        { "redis://:p@[::1]:1/0", NULL, NEITHER },
        { "redis+unix:///run/r.sock", NULL, NEITHER },
        { "redis+unix://:p@/run/r.sock?db=3", NULL, NEITHER },
        { "rediss://h?ca=/etc/ca.pem", NULL, NEITHER },
        { "redis+sentinel://a,b:2/main/3", NULL, NEITHER },
        { "redis+cluster://u:p@a:1,[::1]:2/0", NULL, NEITHER },
        { "http://h", "is no address of a store", BOTH },
        { "redis+tls://h", "is no address of a store", BOTH },
        { "redis:/h", "is no address of a store", BOTH },
        { "redis://", "lacks a host", BOTH },
        { "redis://:6379", "lacks a host", BOTH },
        { "redis://u:p@", "lacks a host", BOTH },
        { "redis+cluster://a:1,", "lacks a host", BOTH },
        { "redis+cluster://a:1,,b:1", "lacks a host", BOTH },
        { "redis://127.0.0.1:777701", "has a port", BOTH },
        { "redis://127.0.0.1:0", "has a port", BOTH },
        { "redis://127.0.0.1:", "has a port", BOTH },
        { "redis://u:password", "has a port", BOTH }, /* the @ was forgotten */
        { "redis+sentinel://a:1,b:x/main", "has a port", BOTH },
        { "redis://127.0.0.1:70 01", "holds a blank", BOTH },
        { "redis://:p#q@h", "holds a blank", BOTH },
        { "redis://h\n", "holds a blank", BOTH },
        { "redis://:a/b@h", "has an @ behind", BOTH },
        { "redis://:a@b@h", "has two @", BOTH },
        { "redis://u@h", "has no password", BOTH },
        { "redis://u:@h", "has no password", BOTH },
        { "redis://::1", "has a host with several colons", BOTH },
        { "redis://[::1", "has a [ without", BOTH },
        { "redis://[::1]6379", "has a [ without", BOTH },
        { "redis://[::1]:", "has a port", BOTH },
        { "redis://a,b", "names several hosts", BOTH },
        { "redis://h/x", "has a database that", BOTH },
        { "redis://h/65536", "has a database that", BOTH },
        { "redis+sentinel://h/main/", "has a database that", BOTH },
        { "redis+cluster://h/1", "has a database, and", BOTH },
        { "redis+sentinel://h", "lacks the name", BOTH },
        { "redis+sentinel://h//1", "lacks the name", BOTH },
        { "redis+unix://h/run/r.sock", "names a host", BOTH },
        { "redis+unix://", "lacks the socket's path", BOTH },
        { "redis+unix:///", "lacks the socket's path", BOTH },
        { "redis+cluster://1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "names more",
          BOTH },
        { "redis://h?ca=/etc/ca.pem", NULL, DIALLING },
        { "redis://ho%st", NULL, DIALLING },
        { "redis://h_/?x=1", NULL, DIALLING },
        { "rediss+unix:///run/r.sock", NULL, DIALLING },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct url url;
        const char *why;
        struct store_url_problem found = store_url_judge(rows[i].url);
        expect_row((found.what == NULL) == (rows[i].what == NULL), rows[i].url);
        if (found.what != NULL && strncmp(found.what, rows[i].what, strlen(rows[i].what)) != 0)
            fail_msg("%s: %s", rows[i].url, found.what);
        expect_row((found.cure == NULL) == (found.what == NULL), rows[i].url);
        expect_row(url_parse(rows[i].url, &url, &why) == (rows[i].refused == NEITHER), rows[i].url);
    }
}

/* Every URL of a few pieces: the contract never refuses what can be dialled. */
static void what_can_be_dialled_loads(void **state)
{
    (void)state;
    static const char *const schemes[] = { "redis://", "rediss://", "redis+unix://", "valkey+sentinel://",
                                           "redis+cluster://" };
    static const char *const users[] = { "", ":p@", "u:p@", "u@", "@", "a@b:c@" };
    static const char *const hosts[] = { "",   "h",   "h:1",     "h:", "h:99999", "[::1]", "[::1]:7",
                                         "[x", "a,b", "a:1,b:2", "a,", ":1",      "::1" };
    static const char *const paths[] = { "",    "/",      "//",          "/1",   "/x",      "/x/1",
                                         "/x/", "/70000", "/run/r.sock", "/a@b", "/1?db=1", "?" };
    size_t dialled = 0, agreed = 0, all = 0;
    for (size_t s = 0; s < COUNT_OF(schemes); s++)
        for (size_t u = 0; u < COUNT_OF(users); u++)
            for (size_t h = 0; h < COUNT_OF(hosts); h++)
                for (size_t p = 0; p < COUNT_OF(paths); p++, all++) {
                    char text[128];
                    struct url url;
                    const char *why;
                    snprintf(text, sizeof text, "%s%s%s%s", schemes[s], users[u], hosts[h], paths[p]);
                    bool is_dialled = url_parse(text, &url, &why);
                    bool is_fine = store_url_judge(text).what == NULL;
                    expect_row(is_fine || !is_dialled, text);
                    dialled += is_dialled;
                    agreed += is_fine == is_dialled;
                }
    assert_in_range(dialled, 100, all / 4);
    assert_true(agreed > all - all / 20); /* what is left are parameters */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_judge_alike),
        cmocka_unit_test(what_can_be_dialled_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
