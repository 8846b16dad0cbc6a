// SPDX-License-Identifier: Apache-2.0
/* authority.c - by OpenSSL, with keys of a curve, which are made quickly; see authority.h. */
#include "support/authority.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DAY_S 86400
#define NAMES_MAX 64

static char folder[64];
static char *names[NAMES_MAX]; /* given out */
static unsigned name_count;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "authority: %s failed\n", what);
    abort();
}

const char *authority_begin(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/weir-authority-XXXXXX");
    require(mkdtemp(folder) != NULL, "mkdtemp");
    return folder;
}

void authority_end(void)
{
    char path[512];
    DIR *open_folder = opendir(folder);
    const struct dirent *entry;
    while (open_folder != NULL && (entry = readdir(open_folder)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path); /* "." and ".." stay */
    }
    if (open_folder != NULL)
        (void)closedir(open_folder);
    (void)rmdir(folder);
    while (name_count > 0)
        free(names[--name_count]);
}

static const char *path_of(const char *name, const char *ending)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    for (unsigned i = 0; i < name_count; i++)
        if (strcmp(names[i], path) == 0)
            return names[i];
    require(name_count < NAMES_MAX && (names[name_count] = strdup(path)) != NULL, "keeping a path");
    return names[name_count++];
}

const char *authority_certificate(const char *name)
{
    return path_of(name, "pem");
}

const char *authority_key(const char *name)
{
    return path_of(name, "key");
}

static void write_files(const char *name, X509 *certificate, EVP_PKEY *key)
{
    FILE *file = fopen(authority_certificate(name), "w");
    require(file != NULL && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0,
            "writing a certificate");
    file = fopen(authority_key(name), "w");
    require(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1
                && fclose(file) == 0,
            "writing a key");
}

static void extend(X509 *certificate, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    require(extension != NULL && X509_add_ext(certificate, extension, -1) == 1, value);
    X509_EXTENSION_free(extension);
}

static X509 *begin_certificate(const char *name, EVP_PKEY *key, int days)
{
    static long serial = 1;
    X509 *certificate = X509_new();
    require(certificate != NULL, "X509_new");
    X509_NAME *subject = X509_get_subject_name(certificate);
    require(
        X509_set_version(certificate, 2) == 1
            && ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++) == 1
            && X509_gmtime_adj(X509_getm_notBefore(certificate), -DAY_S) != NULL
            && X509_gmtime_adj(X509_getm_notAfter(certificate), (long)(days - 1) * DAY_S) != NULL
            && X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0)
                   == 1
            && X509_set_pubkey(certificate, key) == 1,
        "filling a certificate");
    return certificate;
}

void authority_make(const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = begin_certificate(name, key, 30);
    require(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1, "naming the issuer");
    extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
    extend(certificate, NID_subject_key_identifier, "hash");
    require(X509_sign(certificate, key, EVP_sha256()) > 0, "signing");
    write_files(name, certificate, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void authority_sign(const char *authority, const char *name, const char *san, int days)
{
    FILE *file = fopen(authority_certificate(authority), "r");
    X509 *issuer = file == NULL ? NULL : PEM_read_X509(file, NULL, NULL, NULL);
    require(issuer != NULL && fclose(file) == 0, "reading the authority");
    file = fopen(authority_key(authority), "r");
    EVP_PKEY *issuer_key = file == NULL ? NULL : PEM_read_PrivateKey(file, NULL, NULL, NULL);
    require(issuer_key != NULL && fclose(file) == 0, "reading the authority's key");

    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = begin_certificate(name, key, days);
    require(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1, "naming the issuer");
    extend(certificate, NID_subject_alt_name, san);
    require(X509_sign(certificate, issuer_key, EVP_sha256()) > 0, "signing");
    write_files(name, certificate, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    EVP_PKEY_free(issuer_key);
    X509_free(issuer);
}
