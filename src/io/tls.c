// SPDX-License-Identifier: Apache-2.0
/*
 * tls.c - OpenSSL between two pieces of memory; see tls.h.
 *
 * OpenSSL reads and writes through a BIO of our own, which takes from the bytes that were given and appends to those that
 * must leave. So there is no buffer whose growth we would not see: what came is bounded by one read of the socket, what
 * leaves by what was written and by the answers to what came.
 */
#include "io/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Longest host name (RFC 1035) and its zero. */
#define NAME_ROOM 254

/* An outgoing buffer larger than this is not kept. */
#define OUT_KEPT ((size_t)16 << 10)

struct tls_context {
    SSL_CTX *ctx;
    enum tls_side side;
    bool has_name;
    char name[NAME_ROOM];
};

struct tls_session {
    SSL *ssl;
    struct slice in; /* not used up */
    char *kept;      /* where `in` lies, after tls_keep() */
    char *out;
    size_t out_len, out_cap;
    const char *protocol; /* that is spoken; NULL: any, and none is named */
    char why[192];
};

/* ---- The BIO ---------------------------------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *to, int room)
{
    struct tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (session->in.len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = session->in.len < (size_t)room ? session->in.len : (size_t)room;
    memcpy(to, session->in.at, len);
    session->in.at += len;
    session->in.len -= len;
    if (session->in.len == 0 && session->kept != NULL) {
        free(session->kept);
        session->kept = NULL;
    }
    return (int)len;
}

static int bio_write(BIO *bio, const char *from, int len)
{
    struct tls_session *session = BIO_get_data(bio);
    size_t cap = session->out_cap == 0 ? 1024 : session->out_cap;
    while (cap - session->out_len < (size_t)len)
        cap *= 2;
    char *larger = cap == session->out_cap ? session->out : realloc(session->out, cap);
    if (larger == NULL)
        return -1; /* no retry: the session breaks */
    session->out = larger;
    session->out_cap = cap;
    memcpy(larger + session->out_len, from, (size_t)len);
    session->out_len += (size_t)len;
    return len;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* the owner of the session sends */
}

/* One for the process, for as long as it runs: sessions may outlive the context that they began with. */
static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "memory of a session");
    if (made == NULL || !BIO_meth_set_read(made, bio_read) || !BIO_meth_set_write(made, bio_write)
        || !BIO_meth_set_ctrl(made, bio_control))
        return; /* memory is out: no session can be made */
    method = made;
}

/* ---- Contexts --------------------------------------------------------------------------------------------------- */

/* What OpenSSL says about the call that failed. */
static const char *reason(void)
{
    unsigned long error = ERR_peek_last_error();
    const char *text = error == 0 ? NULL : ERR_reason_error_string(error);
    return text == NULL ? "no reason given" : text;
}

/* `what` file `path` is at fault. */
static bool file_fault(const char *what, const char *path, const char *reason_text, char *why, size_t cap)
{
    (void)snprintf(why, cap, "%s file %s: %s", what, path, reason_text);
    return false;
}

static bool is_readable(const char *what, const char *path, char *why, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_fault(what, path, strerror(errno), why, cap);
    (void)close(fd);
    return true;
}

/* A key behind a passphrase would ask the terminal. */
static int no_passphrase(char *out, int size, int is_writing, void *context)
{
    (void)out;
    (void)size;
    (void)is_writing;
    (void)context;
    return -1;
}

static bool load_trust(SSL_CTX *ctx, enum tls_side side, const char *ca, char *why, size_t cap)
{
    if (ca == NULL) {
        if (side == TLS_CLIENT && SSL_CTX_set_default_verify_paths(ctx) != 1) {
            (void)snprintf(why, cap, "the system's authorities: %s", reason());
            return false;
        }
        return true;
    }
    if (!is_readable("ca", ca, why, cap))
        return false;
    if (SSL_CTX_load_verify_file(ctx, ca) != 1)
        return file_fault("ca", ca, "holds no certificate in PEM that can be read", why, cap);
    if (side == TLS_SERVER)
        SSL_CTX_set_client_CA_list(ctx,
                                   SSL_load_client_CA_file(ca)); /* takes it; a hint for clients, NULL: none */
    return true;
}

/* Whether the file holds a key in PEM: files were swapped, or one was written over the other. */
static bool holds_key(const char *path)
{
    FILE *file = fopen(path, "re");
    BIO *bio = file == NULL ? NULL : BIO_new_fp(file, BIO_CLOSE); /* takes the file */
    EVP_PKEY *key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    EVP_PKEY_free(key);
    if (bio == NULL && file != NULL)
        (void)fclose(file); /* it was only read */
    BIO_free(bio);
    return key != NULL;
}

/* Why OpenSSL takes no certificate from a file that can be read, in words of the operator's. */
static const char *cert_fault(const char *path)
{
    unsigned long error = ERR_peek_last_error();
    int code = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    if (code == SSL_R_EE_KEY_TOO_SMALL || code == SSL_R_CA_KEY_TOO_SMALL)
        return "has a key that is too short to be safe; make a longer one";
    if (code == SSL_R_CA_MD_TOO_WEAK)
        return "is signed with a hash that is not safe any more; have it signed with SHA-256";
    return holds_key(path) ? "holds a key and no certificate; were the two files swapped?"
                           : "holds no certificate in PEM that can be read";
}

static bool load_own(SSL_CTX *ctx, const struct tls_options *options, char *why, size_t cap)
{
    if (options->cert == NULL)
        return true;
    if (options->key == NULL) {
        (void)snprintf(why, cap, "cert file %s: give its key, too", options->cert);
        return false;
    }
    if (!is_readable("cert", options->cert, why, cap) || !is_readable("key", options->key, why, cap))
        return false;
    if (SSL_CTX_use_certificate_chain_file(ctx, options->cert) != 1)
        return file_fault("cert", options->cert, cert_fault(options->cert), why, cap);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    if (SSL_CTX_use_PrivateKey_file(ctx, options->key, SSL_FILETYPE_PEM) != 1) {
        unsigned long error = ERR_peek_last_error();
        bool is_other =
            ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH && ERR_GET_LIB(error) == ERR_LIB_X509;
        return file_fault("key", options->key,
                          is_other ? "is not the key of the certificate"
                                   : "holds no key in PEM without a passphrase",
                          why, cap);
    }
    return true;
}

/* What the client would speak comes as a list of names, each behind its length. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned int in_len, void *context)
{
    const struct tls_session *session = SSL_get_app_data(ssl);
    (void)context;
    if (session == NULL || session->protocol == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    struct slice wanted = slice_of(session->protocol);
    for (unsigned int at = 0; at < in_len && in_len - at > in[at]; at += 1U + in[at]) {
        if (!slice_equals((struct slice){ (const char *)in + at + 1, in[at] }, wanted))
            continue;
        *out = in + at + 1;
        *out_len = in[at];
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void tls_session_speaks(struct tls_session *session, const char *protocol)
{
    session->protocol = protocol;
}

static void harden(SSL_CTX *ctx, enum tls_side side, bool asks)
{
    int verify =
        side == TLS_CLIENT || asks ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE;
    SSL_CTX_set_verify(ctx, verify, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}

bool tls_context_new(struct tls_context **out, enum tls_side side, const struct tls_options *options, char *why,
                     size_t cap)
{
    struct tls_context *context = calloc(1, sizeof *context);
    ERR_clear_error();
    (void)snprintf(why, cap, "memory is out");
    if (context == NULL)
        return false;
    context->side = side;
    context->ctx = SSL_CTX_new(side == TLS_CLIENT ? TLS_client_method() : TLS_server_method());
    if (context->ctx == NULL || SSL_CTX_set_min_proto_version(context->ctx, TLS1_2_VERSION) != 1
        || SSL_CTX_set_num_tickets(context->ctx, 0) != 1)
        goto free_context;
    harden(context->ctx, side, options->ca != NULL);
    SSL_CTX_set_alpn_select_cb(context->ctx, choose_protocol, NULL); /* of a server */
    if (!load_trust(context->ctx, side, options->ca, why, cap) || !load_own(context->ctx, options, why, cap))
        goto free_context;
    if (side == TLS_SERVER && options->cert == NULL) {
        (void)snprintf(why, cap, "a server must show a certificate: give its file and its key's");
        goto free_context;
    }
    if (options->name != NULL) {
        context->has_name = true;
        (void)snprintf(context->name, sizeof context->name, "%s",
                       options->name); /* what is longer is no name */
    }
    *out = context;
    return true;

free_context:
    ERR_clear_error();
    tls_context_free(context);
    return false;
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->ctx);
    free(context);
}

int64_t tls_context_expires_at(const struct tls_context *context)
{
    const X509 *shown = SSL_CTX_get0_certificate(context->ctx);
    struct tm civil;
    if (shown == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(shown), &civil) != 1)
        return 0;
    return (int64_t)timegm(&civil);
}

/* ---- Sessions --------------------------------------------------------------------------------------------------- */

/* The server must prove to be `host`, and is told which name was meant. */
static bool expect(SSL *ssl, const char *host)
{
    char name[NAME_ROOM];
    unsigned char address[sizeof(struct in6_addr)];
    size_t len = strlen(host);
    if (len > 0 && host[len - 1] == '.')
        len--; /* complete names have a dot at their end, certificates do not write it */
    if (len == 0 || len >= sizeof name)
        return false;
    memcpy(name, host, len);
    name[len] = '\0';
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct tls_session *tls_session_new(const struct tls_context *context, const char *host)
{
    (void)pthread_once(&method_once, make_method); /* always 0 */
    struct tls_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->ssl = SSL_new(context->ctx);
    BIO *bio = session->ssl == NULL || method == NULL ? NULL : BIO_new(method);
    if (bio == NULL)
        goto free_session;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio); /* takes it */
    if (context->side == TLS_SERVER) {
        SSL_set_accept_state(session->ssl);
        (void)SSL_set_app_data(session->ssl,
                               session); /* failing: no protocol is chosen, as if none was named */
        return session;
    }
    SSL_set_connect_state(session->ssl);
    if (expect(session->ssl, context->has_name ? context->name : host))
        return session;

free_session:
    ERR_clear_error();
    tls_session_free(session);
    return NULL;
}

void tls_session_free(struct tls_session *session)
{
    if (session == NULL)
        return;
    SSL_free(session->ssl);
    free(session->kept);
    free(session->out);
    free(session);
}

void tls_give(struct tls_session *session, struct slice bytes)
{
    assert(session->in.len == 0 || bytes.len == 0);
    session->in = bytes;
}

bool tls_keep(struct tls_session *session)
{
    if (session->in.len == 0 || session->kept != NULL)
        return true;
    session->kept = malloc(session->in.len);
    if (session->kept == NULL)
        return false;
    memcpy(session->kept, session->in.at, session->in.len);
    session->in.at = session->kept;
    return true;
}

bool tls_has_more(const struct tls_session *session)
{
    return session->in.len > 0 || SSL_pending(session->ssl) > 0;
}

/* ---- Why --------------------------------------------------------------------------------------------------------- */

static void explain(struct tls_session *session)
{
    unsigned long error = ERR_peek_error(); /* the first is the cause */
    long verdict = SSL_get_verify_result(session->ssl);
    int code = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    const char *text = error == 0 ? NULL : ERR_reason_error_string(error);
    if (code == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
        (void)snprintf(session->why, sizeof session->why, "TLS: its certificate is refused: %s",
                       X509_verify_cert_error_string(verdict));
    else if (code == SSL_R_WRONG_VERSION_NUMBER || code == SSL_R_HTTP_REQUEST
             || code == SSL_R_PACKET_LENGTH_TOO_LONG)
        (void)snprintf(session->why, sizeof session->why, "TLS: what it sends is not TLS");
    else
        (void)snprintf(session->why, sizeof session->why, "TLS: %s", text == NULL ? "broken" : text);
}

const char *tls_why(const struct tls_session *session)
{
    return session->why;
}

static enum tls_result judge(struct tls_session *session, int result)
{
    enum tls_result verdict = TLS_BROKEN;
    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_NONE:
        return TLS_DONE;
    case SSL_ERROR_WANT_READ:
        verdict = TLS_WAITS;
        break;
    case SSL_ERROR_ZERO_RETURN:
        verdict = TLS_ENDED;
        break;
    default:
        explain(session);
    }
    ERR_clear_error();
    return verdict;
}

/* ---- Bytes -------------------------------------------------------------------------------------------------------- */

enum tls_result tls_shake(struct tls_session *session)
{
    ERR_clear_error();
    return judge(session, SSL_do_handshake(session->ssl));
}

enum tls_result tls_read(struct tls_session *session, char *at, size_t size, size_t *len)
{
    ERR_clear_error();
    return judge(session, SSL_read_ex(session->ssl, at, size, len));
}

bool tls_write(struct tls_session *session, const void *at, size_t len)
{
    size_t written;
    ERR_clear_error();
    return len == 0 || judge(session, SSL_write_ex(session->ssl, at, len, &written)) == TLS_DONE;
}

void tls_finish(struct tls_session *session)
{
    ERR_clear_error();
    if (SSL_is_init_finished(session->ssl))
        (void)SSL_shutdown(session->ssl); /* the peer's answer is not waited for */
    ERR_clear_error();
}

struct slice tls_outgoing(const struct tls_session *session)
{
    return (struct slice){ session->out, session->out_len };
}

void tls_left(struct tls_session *session)
{
    session->out_len = 0;
    if (session->out_cap > OUT_KEPT) {
        free(session->out);
        session->out = NULL;
        session->out_cap = 0;
    }
}

/* ---- The peer ------------------------------------------------------------------------------------------------------ */

/* Bytes beyond ASCII, control bytes and what RFC 2253 sets apart are escaped: so no two subjects have one text. */
size_t tls_peer_subject(const struct tls_session *session, char *out, size_t cap)
{
    X509 *shown =
        SSL_get_verify_result(session->ssl) == X509_V_OK ? SSL_get1_peer_certificate(session->ssl) : NULL;
    BIO *memory = shown == NULL ? NULL : BIO_new(BIO_s_mem());
    char *text = NULL;
    long len = 0;
    if (memory != NULL && X509_NAME_print_ex(memory, X509_get_subject_name(shown), 0, XN_FLAG_RFC2253) >= 0)
        len = BIO_get_mem_data(memory, &text);
    if (len > (long)cap)
        len = (long)cap;
    if (len > 0)
        memcpy(out, text, (size_t)len);
    BIO_free(memory);
    X509_free(shown);
    ERR_clear_error();
    return len > 0 ? (size_t)len : 0;
}
