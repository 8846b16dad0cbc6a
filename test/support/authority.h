// SPDX-License-Identifier: Apache-2.0
/*
 * authority.h - certificates for tests: authorities, and what they sign, as PEM files in a folder of the test.
 *
 * Each file is FOLDER/NAME.pem (the certificate) with FOLDER/NAME.key beside it.
 */
#ifndef WEIR_TEST_AUTHORITY_H
#define WEIR_TEST_AUTHORITY_H

/* A new folder below /tmp, removed with all its files by authority_end(). */
const char *authority_begin(void);
void authority_end(void);

/* An authority that signs itself. */
void authority_make(const char *name);

/* A certificate by `authority` for the names in `san` ("DNS:localhost,IP:127.0.0.1"), valid from yesterday for `days`. */
void authority_sign(const char *authority, const char *name, const char *san, int days);

/* FOLDER/NAME.pem and FOLDER/NAME.key; the text lives until the test ends. */
const char *authority_certificate(const char *name);
const char *authority_key(const char *name);

#endif
