/* pem.h -- keys and certificates for one test, made on the spot. */
#ifndef SL_TEST_PEM_H
#define SL_TEST_PEM_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "check.h"

static inline void pem_path(char out[128], const char *folder, const char *name)
{
    snprintf(out, 128, "%s/%s", folder, name);
}

static inline EVP_PKEY *pem_key(void)
{
    return EVP_EC_gen("P-256");
}

static inline void pem_write_key(EVP_PKEY *key, const char *path,
                                 const char *password)
{
    FILE *file = fopen(path, "w");

    CHECK_EQ(PEM_write_PrivateKey(file, key,
                                  password ? EVP_aes_128_cbc() : NULL, NULL, 0,
                                  NULL, (void *)(uintptr_t)password),
             1);
    fclose(file);
}

static inline void pem_extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    CHECK_EQ(X509_add_ext(cert, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

/* A certificate of `key` for `name`, signed by `issuer` (NULL: itself). */
static inline X509 *pem_certify(EVP_PKEY *key, const char *name, bool is_ca,
                                X509 *issuer, EVP_PKEY *issuer_key)
{
    static long serial;
    X509 *cert = X509_new();

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
    X509_set_pubkey(cert, key);
    pem_extend(cert, NID_basic_constraints,
               is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    CHECK(X509_sign(cert, issuer ? issuer_key : key, EVP_sha256()) > 0);
    return cert;
}

static inline void pem_write(X509 *cert, const char *path)
{
    FILE *file = fopen(path, "w");

    CHECK_EQ(PEM_write_X509(file, cert), 1);
    fclose(file);
}

#endif
