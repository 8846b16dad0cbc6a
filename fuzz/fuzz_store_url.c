// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_store_url.c - any text as a store's URL: what was read lies in its place, and what is shown of it reads as the same
 * again, but for user and password.
 */
#include <stdlib.h>

#include "fleet/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool is_same(const char *x, const char *y)
{
    return (x == NULL) == (y == NULL) && (x == NULL || strcmp(x, y) == 0);
}

/* A piece ends inside the text; NULL: there is none. */
static void check_piece(const struct url *url, const char *piece)
{
    if (piece == NULL)
        return;
    require(piece >= url->text && piece < url->text + sizeof url->text);
    require(memchr(piece, '\0', (size_t)(url->text + sizeof url->text - piece)) != NULL);
}

static void check(const struct url *url)
{
    const char *const pieces[] = { url->user, url->password, url->master,    url->ca,
                                   url->cert, url->key,      url->servername };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        check_piece(url, pieces[i]);
    require(url->host_count >= 1 && url->host_count <= URL_HOSTS_MAX);
    require(url->host_count == 1 || url->kind != URL_ONE);
    for (unsigned i = 0; i < url->host_count; i++) {
        require(url->hosts[i] != NULL && url->hosts[i][0] != '\0');
        check_piece(url, url->hosts[i]);
        require((url->ports[i] == 0) == url->is_unix);
    }
    require((url->master != NULL) == (url->kind == URL_SENTINEL));
    require((url->cert != NULL) == (url->key != NULL));
}

static void show_and_read_again(const struct url *url)
{
    static struct url again;
    static char shown[4 * URL_MAX];
    const char *why = NULL;
    size_t len = url_show(url, shown, sizeof shown);
    require(len == strlen(shown));
    if (!url_parse(shown, &again, &why)) {
        require(len >= URL_MAX); /* codes and ports made it longer */
        return;
    }
    require(again.user == NULL && again.password == NULL);
    require(again.kind == url->kind && again.is_tls == url->is_tls && again.is_unix == url->is_unix);
    require(again.db == url->db && again.host_count == url->host_count);
    for (unsigned i = 0; i < url->host_count; i++)
        require(is_same(again.hosts[i], url->hosts[i]) && again.ports[i] == url->ports[i]);
    require(is_same(again.master, url->master) && is_same(again.ca, url->ca) && is_same(again.cert, url->cert));
    require(is_same(again.key, url->key) && is_same(again.servername, url->servername));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct url url;
    const char *why = NULL;
    char *text = malloc(size + 1);
    if (text == NULL)
        exit(1);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (url_parse(text, &url, &why)) {
        check(&url);
        show_and_read_again(&url);
    } else {
        require(why != NULL);
    }
    free(text);
    return 0;
}
