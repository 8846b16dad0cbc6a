// SPDX-License-Identifier: Apache-2.0
/*
 * script_text.c - the scripts: files in a row, each with one idea, and the names that a store gives them.
 */
#include <pthread.h>

#include "base/sha256.h"
#include "fleet/script_inside.h"

/* In the order in which they use each other. */
/* clang-format off */
static const char decide_text[] =
#include "fleet/head.lua.h"
#include "fleet/hot.lua.h"
#include "fleet/item.lua.h"
#include "fleet/bucket.lua.h"
#include "fleet/window.lua.h"
#include "fleet/log.lua.h"
#include "fleet/permit.lua.h"
#include "fleet/decide.lua.h"
    ;

static const char undo_text[] =
#include "fleet/head.lua.h"
#include "fleet/item.lua.h"
#include "fleet/bucket.lua.h"
#include "fleet/window.lua.h"
#include "fleet/log.lua.h"
#include "fleet/permit.lua.h"
#include "fleet/permit_units.lua.h"
#include "fleet/giveback.lua.h"
#include "fleet/undo.lua.h"
    ;

static const char settle_text[] =
#include "fleet/head.lua.h"
#include "fleet/item.lua.h"
#include "fleet/bucket.lua.h"
#include "fleet/window.lua.h"
#include "fleet/log.lua.h"
#include "fleet/permit.lua.h"
#include "fleet/permit_units.lua.h"
#include "fleet/giveback.lua.h"
#include "fleet/settle.lua.h"
    ;

static const char hold_text[] =
#include "fleet/head.lua.h"
#include "fleet/item.lua.h"
#include "fleet/permit.lua.h"
#include "fleet/permit_units.lua.h"
#include "fleet/hold.lua.h"
    ;

static const char lease_text[] =
#include "fleet/head.lua.h"
#include "fleet/item.lua.h"
#include "fleet/bucket.lua.h"
#include "fleet/window.lua.h"
#include "fleet/lease.lua.h"
    ;
/* clang-format on */

_Static_assert(sizeof decide_text < SCRIPT_TEXT_MAX && sizeof settle_text < SCRIPT_TEXT_MAX
                   && sizeof undo_text < SCRIPT_TEXT_MAX && sizeof hold_text < SCRIPT_TEXT_MAX
                   && sizeof lease_text < SCRIPT_TEXT_MAX,
               "SCRIPT_COMMAND_MAX holds every script");

static struct script_source sources[SCRIPT_NAME_COUNT] = {
    [SCRIPT_DECIDE] = { .text = { decide_text, sizeof decide_text - 1 } },
    [SCRIPT_UNDO] = { .text = { undo_text, sizeof undo_text - 1 } },
    [SCRIPT_SETTLE] = { .text = { settle_text, sizeof settle_text - 1 } },
    [SCRIPT_HOLD] = { .text = { hold_text, sizeof hold_text - 1 } },
    [SCRIPT_LEASE] = { .text = { lease_text, sizeof lease_text - 1 } },
};
#define VERSION_BYTES 6
static char version[2 * VERSION_BYTES + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void name_all(void)
{
    char hashes[SCRIPT_NAME_COUNT][SHA1_HEX_LEN];
    for (size_t i = 0; i < SCRIPT_NAME_COUNT; i++) {
        sha1_hex(sources[i].text.at, sources[i].text.len, sources[i].hash);
        memcpy(hashes[i], sources[i].hash, SHA1_HEX_LEN);
    }
    sha256_hex(hashes, sizeof hashes, VERSION_BYTES, version);
}

const struct script_source *script_source(enum script_name name)
{
    pthread_once(&once, name_all);
    return &sources[name];
}

const char *script_version(void)
{
    pthread_once(&once, name_all);
    return version;
}

struct slice script_hash(void)
{
    return (struct slice){ script_source(SCRIPT_DECIDE)->hash, SHA1_HEX_LEN };
}
