// SPDX-License-Identifier: Apache-2.0
/*
 * tokens.h - who may call: a file of secrets, each with a role.
 *
 *     # role  secret                 name
 *     check   9f3ac1d7b24e8a60f1     billing
 *     admin   7c0e5b6d1a9f42384e
 *
 * A secret is compared with every entry in a time that does not depend on what matches, so answers cannot be used
 * to guess one byte by byte. Secrets are never printed.
 */
#ifndef WEIR_NET_TOKENS_H
#define WEIR_NET_TOKENS_H

#include <stdio.h>

#include "base/bytes.h"

/* Shortest secret, so that guessing is hopeless; longest, and most entries, so that comparing all stays cheap. */
#define TOKEN_SECRET_MIN 16
#define TOKEN_SECRET_MAX 128
#define TOKENS_MAX 256

/* Each may do what the one before may. */
enum role { ROLE_NONE, ROLE_CHECK, ROLE_ADMIN };

struct tokens;

/* Read the file. NULL: it was said on `complaints` what is wrong, with file and line. */
struct tokens *tokens_load(const char *path, FILE *complaints);
void tokens_free(struct tokens *tokens);

/* The role of a secret; ROLE_NONE when nobody has it. */
enum role tokens_role(const struct tokens *tokens, struct slice secret);

size_t tokens_count(const struct tokens *tokens);

#endif
