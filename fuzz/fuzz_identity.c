// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_identity.c - any head from any peer: what comes out keeps its promises.
 *
 * Input: one byte of choices (door, peer, credentials, whether it names whom it speaks for, certificate), then lines; the first is the target, each other
 * `Name: value`. Checked: every attribute is 1 to 1024 bytes without control bytes, no name comes twice, values lie
 * in the head or in the storage, a path is in its one spelling, from a stranger the address is the peer's, and a subject is the certificate's.
 */
#include <stdlib.h>

#include "rule/identity.h"
#include "rule/path.h"

enum { FIELDS_MAX = 100 };

/* Of the peer's certificate, where it has one. */
#define SUBJECT "CN=billing,O=Acme"

#define MUST(condition) \
    do { \
        if (!(condition)) \
            abort(); \
    } while (0)

static const struct network proxies[] = { { { { [10] = 0xff, 0xff, 10 } }, 104 },
                                          { { { 0x20, 0x01, 0x0d, 0xb8, 0xaa, 0xaa } }, 48 } };

static const struct identity_source sources[] = {
    { "ip", IDENTITY_X_FORWARDED_FOR, { NULL, 0 }, false, false },
    { "hop", IDENTITY_FORWARDED, { NULL, 0 }, false, false },
    { "tenant", IDENTITY_HEADER, { "x-tenant", 8 }, true, false },
    { "api-key", IDENTITY_HEADER, { "authorization", 13 }, false, true },
    { "session", IDENTITY_COOKIE, { "sid", 3 }, false, false },
    { "token", IDENTITY_QUERY, { "k", 1 }, false, false },
    { "service", IDENTITY_CERTIFICATE, { NULL, 0 }, false, false },
};

static const struct identity_config config = {
    .proxies = proxies,
    .proxy_count = 2,
    .sources = sources,
    .source_count = sizeof sources / sizeof *sources,
    .reads_query = true,
    .uids = (const uint32_t[]){ 33 },
    .uid_count = 1,
    .has_uids = true,
};

static void check_attribute(const struct weir_identity *identity, size_t index)
{
    const struct weir_attribute *attribute = identity->attributes + index;
    MUST(attribute->len > 0 && attribute->len <= WEIR_ATTRIBUTE_MAX);
    for (size_t i = 0; i < attribute->len; i++)
        MUST((unsigned char)attribute->value[i] >= 0x20 && attribute->value[i] != 0x7f);
    for (size_t i = 0; i < index; i++)
        MUST(strcmp(identity->attributes[i].name, attribute->name) != 0);

    struct slice value = { attribute->value, attribute->len }, again;
    char storage[WEIR_ATTRIBUTE_MAX], text[ADDRESS_TEXT_MAX];
    struct address address;
    if (strcmp(attribute->name, "path") == 0) {
        MUST(path_normalise(value, storage, &again) == PATH_OK && slice_equals(value, again));
    } else if (strcmp(attribute->name, "ip") == 0 || strcmp(attribute->name, "hop") == 0) {
        MUST(address_parse(value, &address));
        MUST(slice_equals(value, (struct slice){ text, address_format(&address, text) }));
    }
}

/* A line of the input; false at its end. */
static bool next_line(struct slice *rest, struct slice *line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->at, '\n', rest->len);
    size_t len = end == NULL ? rest->len : (size_t)(end - rest->at);
    *line = (struct slice){ rest->at, len };
    rest->at += end == NULL ? len : len + 1;
    rest->len -= end == NULL ? len : len + 1;
    return true;
}

static struct weir_peer choose_peer(unsigned choice)
{
    static const uint8_t proxy[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
                         stranger[16] = { 0x20, 0x01, [15] = 7 };
    struct weir_peer peer = { .is_unix = (choice & 3) == 2,
                              .uid = 33,
                              .has_credentials = (choice & 4) != 0,
                              .is_stranger = (choice & 8) != 0 };
    if ((choice & 16) != 0) {
        peer.subject = SUBJECT;
        peer.subject_len = strlen(SUBJECT);
    }
    memcpy(peer.address, (choice & 3) == 0 ? proxy : stranger, sizeof peer.address);
    return peer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weir_identity identity;
    struct weir_field fields[FIELDS_MAX];
    struct slice target = { "", 0 }, line;
    if (size == 0)
        return 0;
    struct slice rest = { (const char *)data + 1, size - 1 };
    struct weir_head head = { .door = (enum weir_auth_door)(data[0] >> 6) % 3, .peer = choose_peer(data[0]) };
    (void)next_line(&rest, &target); /* an empty input has an empty target */
    while (head.field_count < FIELDS_MAX && next_line(&rest, &line)) {
        const char *colon = line.len > 0 ? memchr(line.at, ':', line.len) : NULL;
        if (colon == NULL)
            continue;
        size_t name_len = (size_t)(colon - line.at);
        fields[head.field_count++] =
            (struct weir_field){ line.at, colon + 1, name_len, line.len - name_len - 1 };
    }
    head.method = "GET";
    head.method_len = 3;
    head.target = target.at;
    head.target_len = target.len;
    head.fields = fields;
    identity_read(&config, &head, &identity);

    MUST(identity.count <= WEIR_ATTRIBUTES_MAX);
    for (size_t i = 0; i < identity.count; i++) {
        const struct weir_attribute *attribute = identity.attributes + i;
        check_attribute(&identity, i);
        bool is_stranger = (data[0] & 3) == 1 || (data[0] & 3) == 3;
        if (is_stranger && strcmp(attribute->name, "ip") == 0)
            MUST(attribute->len == 7 && memcmp(attribute->value, "2001::7", 7) == 0);
        is_stranger = is_stranger || head.peer.is_stranger;
        MUST(!is_stranger || head.peer.has_credentials || strcmp(attribute->name, "tenant") != 0);
        if (strcmp(attribute->name, "service") == 0)
            MUST(head.peer.subject != NULL && attribute->len == strlen(SUBJECT)
                 && memcmp(attribute->value, SUBJECT, attribute->len) == 0);
    }
    return 0;
}
