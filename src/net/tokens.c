// SPDX-License-Identifier: Apache-2.0
/* tokens.c - reads the tokens file and compares secrets; see tokens.h. */
#include "net/tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Longest line: role, secret, a name and blanks. */
#define LINE_BYTES 1024

struct token {
    enum role role;
    size_t len;
    char secret[TOKEN_SECRET_MAX]; /* zeros behind len */
};

struct tokens {
    size_t count;
    struct token at[TOKENS_MAX];
};

/* The next word of a line, or an empty slice; moves *at behind it. */
static struct slice next_word(const char **at)
{
    *at += strspn(*at, " \t\r\n");
    struct slice word = { *at, strcspn(*at, " \t\r\n") };
    *at += word.len;
    return word;
}

/* NULL, or what is wrong with the line. */
static const char *read_line(struct tokens *tokens, const char *line)
{
    struct slice role = next_word(&line);
    if (role.len == 0 || role.at[0] == '#')
        return NULL;
    struct token token = { .role = ROLE_NONE };
    if (slice_equals(role, SLICE("check")))
        token.role = ROLE_CHECK;
    else if (slice_equals(role, SLICE("admin")))
        token.role = ROLE_ADMIN;
    else
        return "a line is `check SECRET [NAME]` or `admin SECRET [NAME]`";

    struct slice secret = next_word(&line);
    if (secret.len < TOKEN_SECRET_MIN)
        return "the secret is shorter than 16 characters; make one with `openssl rand -hex 16`";
    if (secret.len > TOKEN_SECRET_MAX)
        return "the secret is longer than 128 characters";
    struct slice name = next_word(&line);
    if (name.len > 0 && next_word(&line).len > 0)
        return "there are words behind the name";
    if (tokens_role(tokens, secret) != ROLE_NONE)
        return "the secret stands in the file twice";
    if (tokens->count == TOKENS_MAX)
        return "there are more than 256 secrets";
    token.len = secret.len;
    memcpy(token.secret, secret.at, secret.len);
    tokens->at[tokens->count++] = token;
    return NULL;
}

static bool read_lines(struct tokens *tokens, FILE *file, const char *path, FILE *complaints)
{
    char line[LINE_BYTES];
    for (unsigned number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        const char *fault =
            strlen(line) == sizeof line - 1 ? "the line is longer than 1022 bytes" : read_line(tokens, line);
        if (fault != NULL) {
            (void)fprintf(complaints, "%s:%u: %s\n", path, number,
                          fault); /* a lost complaint loses no safety */
            return false;
        }
    }
    if (ferror(file) || tokens->count == 0) {
        (void)fprintf(complaints, "%s: %s\n", path,
                      ferror(file) ? "cannot be read"
                                   : "holds no token; nobody could call: add `check SECRET NAME`");
        return false;
    }
    return true;
}

static bool is_private(FILE *file, const char *path, FILE *complaints)
{
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && (status.st_mode & 077) == 0)
        return true;
    (void)fprintf(complaints, "%s: others can read this file of secrets; run `chmod 600 %s`\n", path, path);
    return false;
}

struct tokens *tokens_load(const char *path, FILE *complaints)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)fprintf(complaints, "%s: cannot be read: %s\n", path, strerror(errno));
        return NULL;
    }
    struct tokens *tokens = calloc(1, sizeof *tokens);
    bool is_good =
        tokens != NULL && is_private(file, path, complaints) && read_lines(tokens, file, path, complaints);
    (void)fclose(file); /* only read */
    if (!is_good) {
        tokens_free(tokens);
        return NULL;
    }
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    if (tokens != NULL)
        explicit_bzero(tokens, sizeof *tokens);
    free(tokens);
}

size_t tokens_count(const struct tokens *tokens)
{
    return tokens->count;
}

enum role tokens_role(const struct tokens *tokens, struct slice secret)
{
    char padded[TOKEN_SECRET_MAX] = { 0 };
    size_t len = secret.len <= TOKEN_SECRET_MAX ? secret.len : 0;
    if (len > 0)
        memcpy(padded, secret.at, len);

    unsigned role = ROLE_NONE;
    for (size_t i = 0; i < tokens->count; i++) {
        const struct token *token = &tokens->at[i];
        bool is_same = bytes_equal_constant_time(token->secret, padded, sizeof padded);
        is_same &= token->len == len;
        role |= (unsigned)token->role & (0U - (unsigned)is_same); /* no branch on the outcome */
    }
    return (enum role)role;
}
