/* http_tls.c -- the server behind TLS: certificates that serve as token. */
#include <openssl/ssl.h>
#include <signal.h>

#include "pem.h"
#include "serve.h"

static struct {
    char cert[128], key[128], ca[128];
    X509 *client;
    EVP_PKEY *client_key;
} files;

/* A CA that signs both the server's and the client's certificate. */
static void make_files(const char *folder)
{
    EVP_PKEY *ca_key = pem_key(), *key = pem_key();
    X509 *ca = pem_certify(ca_key, "ca", true, NULL, NULL);
    X509 *cert = pem_certify(key, "localhost", false, ca, ca_key);

    pem_path(files.cert, folder, "cert.pem");
    pem_path(files.key, folder, "key.pem");
    pem_path(files.ca, folder, "ca.pem");
    pem_write(ca, files.ca);
    pem_write(cert, files.cert);
    pem_write_key(key, files.key, NULL);
    files.client_key = pem_key();
    files.client = pem_certify(files.client_key, "client", false, ca, ca_key);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
}

static void drop_files(const char *folder)
{
    unlink(files.cert);
    unlink(files.key);
    unlink(files.ca);
    rmdir(folder);
    X509_free(files.client);
    EVP_PKEY_free(files.client_key);
}

/* Repeat a call of OpenSSL until it has what it wants; < 1 if it fails. */
#define UNTIL(s, ssl, call)                                                    \
    ({                                                                         \
        int n_ = -1, why_ = SSL_ERROR_WANT_READ;                               \
                                                                               \
        for (unsigned i_ = 0; why_ == SSL_ERROR_WANT_READ && i_ < 4000;        \
             i_++) {                                                           \
            n_ = (call);                                                       \
            why_ = SSL_get_error((ssl), n_);                                   \
            step((s), i_);                                                     \
        }                                                                      \
        n_;                                                                    \
    })

/* One request over a connection of its own; the status, or 0. */
static int check(struct served *s, const char *fields, bool show)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    char text[512], got[512];
    int fd = call(s), n, status = 0;
    SSL *ssl;

    if (show) {
        CHECK_EQ(SSL_CTX_use_certificate(ctx, files.client), 1);
        CHECK_EQ(SSL_CTX_use_PrivateKey(ctx, files.client_key), 1);
    }
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    snprintf(
        text, sizeof(text),
        "GET /v1/auth HTTP/1.1\r\nHost: localhost\r\nX-Original-URI: /free\r\n"
        "%s\r\n",
        fields);
    if (CHECK_EQ(UNTIL(s, ssl, SSL_connect(ssl)), 1)) {
        n = SSL_write(ssl, text, (int)strlen(text)); /* fails if it is closed */
        if (n > 0)
            n = UNTIL(s, ssl, SSL_read(ssl, got, sizeof(got) - 1));
        got[n > 0 ? n : 0] = '\0';
        sscanf(got, "HTTP/1.1 %d", &status);
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    return status;
}

static void test_certificates(struct served *s)
{
    CASE("a client certificate serves as token");
    s->door.accepts_client_cert = true;
    s->door.token = SL_STR("s3cret");
    CHECK_EQ(check(s, "", true), 200);
    CASE("without one there is no handshake");
    CHECK_EQ(check(s, "Authorization: Bearer s3cret\r\n", false), 0);
    CASE("where it does not serve as token, the token is needed too");
    s->door.accepts_client_cert = false;
    CHECK_EQ(check(s, "", true), 401);
    CHECK_EQ(check(s, "Authorization: Bearer s3cret\r\n", true), 200);
    s->door.token = SL_STR("");
}

static void test_deadline(struct served *s)
{
    int fd;

    CASE("a client that does not shake hands is not waited for");
    s->door.begin_timeout = 1;
    fd = call(s);
    CHECK(is_over(s, fd));
    close(fd);
}

int main(void)
{
    static const char policy[] = "sluice: 1\n"
                                 "default: []\n";
    char folder[] = "/tmp/sluice-http-tls-XXXXXX";
    struct sl_tls_options options;
    struct sl_diag diag = {.sentence = ""};
    struct sl_tls *tls;
    struct served s;

    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to what the server closed */
    serve_begin(&s, 0);
    rig_open(&s.rig, policy);
    serve_http(&s, 10);
    if (!mkdtemp(folder))
        return 1;
    make_files(folder);
    options = (struct sl_tls_options){files.cert, files.key, files.ca, false};
    must(sl_tls_open(&options, &tls, &diag), "tls", &diag);
    sl_server_set_tls(&s.worker, tls);
    test_certificates(&s);
    test_deadline(&s);
    sl_tls_unref(tls);
    drop_files(folder);
    sl_server_worker_close(&s.worker);
    rig_close(&s.rig);
    serve_end(&s);
    return CHECK_DONE();
}
