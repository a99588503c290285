/* http_tls.c -- the server behind TLS: certificates that serve as token. */
#include <openssl/ssl.h>

#include "pem.h"
#include "served.h"

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

/* One request over a connection of its own; the status, or 0. */
static int ask(struct served *s, const char *fields, bool show)
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
    snprintf(text, sizeof(text),
             "GET /v1/auth HTTP/1.1\r\nHost: h\r\nX-Original-URI: /free\r\n"
             "%s\r\n",
             fields);
    if (CHECK_EQ(SSL_connect(ssl), 1)) {
        CHECK(SSL_write(ssl, text, (int)strlen(text)) > 0);
        n = SSL_read(ssl, got, sizeof(got) - 1);
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
    start(s, "127.0.0.1:0", 10);
    CHECK_EQ(ask(s, "", true), 200);
    CASE("without one hands are not shaken");
    CHECK_EQ(ask(s, "Authorization: Bearer s3cret\r\n", false), 0);
    stop(s);
    CASE("where it does not serve as token, the token is needed too");
    s->door.accepts_client_cert = false;
    start(s, "127.0.0.1:0", 10);
    CHECK_EQ(ask(s, "", true), 401);
    CHECK_EQ(ask(s, "Authorization: Bearer s3cret\r\n", true), 200);
    stop(s);
    s->door.token = SL_STR("");
}

static void test_deadline(struct served *s)
{
    int fd;

    CASE("who does not shake hands is not waited for");
    s->door.begin_timeout = 1;
    start(s, "127.0.0.1:0", 10);
    fd = call(s);
    CHECK(is_over(fd));
    close(fd);
    stop(s);
}

int main(void)
{
    char folder[] = "/tmp/sluice-http-tls-XXXXXX";
    struct sl_tls_options options;
    struct sl_diag diag = {.sentence = ""};
    struct served s;

    served_open(&s);
    if (!mkdtemp(folder))
        return 1;
    make_files(folder);
    options = (struct sl_tls_options){files.cert, files.key, files.ca, false};
    must(sl_tls_open(&options, &s.tls, &diag), "tls", &diag);
    test_certificates(&s);
    test_deadline(&s);
    sl_tls_unref(s.tls);
    drop_files(folder);
    served_close(&s);
    return CHECK_DONE();
}
