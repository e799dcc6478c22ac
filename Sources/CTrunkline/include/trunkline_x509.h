#pragma once

// The functions of OpenSSL's libcrypto (1.1.1 and 3) that create certificates, for tests. Prototypes as in evp.h,
// x509.h, x509v3.h, asn1.h, bio.h and pem.h.

#include "trunkline_openssl.h"

#include <time.h>

typedef struct trunkline_pkey_ctx trunkline_pkey_ctx;
typedef struct trunkline_x509_name trunkline_x509_name;
typedef struct trunkline_x509_extension trunkline_x509_extension;

#define TRUNKLINE_X509_FUNCTIONS(X)                                                                                     \
    /* Keys */                                                                                                          \
    X(trunkline_pkey_ctx *, EVP_PKEY_CTX_new_id, (int type, void *engine))                                              \
    X(void, EVP_PKEY_CTX_free, (trunkline_pkey_ctx *))                                                                  \
    X(int, EVP_PKEY_keygen_init, (trunkline_pkey_ctx *))                                                                \
    X(int, EVP_PKEY_CTX_ctrl, (trunkline_pkey_ctx *, int type, int operation, int command, int number, void *pointer))  \
    X(int, EVP_PKEY_keygen, (trunkline_pkey_ctx *, trunkline_pkey **))                                                  \
    X(void, EVP_PKEY_free, (trunkline_pkey *))                                                                          \
    X(const void *, EVP_sha256, (void))                                                                                 \
    X(const void *, EVP_aes_256_cbc, (void))                                                                            \
    /* Certificates */                                                                                                  \
    X(trunkline_x509 *, X509_new, (void))                                                                               \
    X(void, X509_free, (trunkline_x509 *))                                                                              \
    X(int, X509_set_version, (trunkline_x509 *, long))                                                                  \
    X(void *, X509_get_serialNumber, (trunkline_x509 *))                                                                \
    X(int, ASN1_INTEGER_set_uint64, (void *, uint64_t))                                                                 \
    X(void *, X509_getm_notBefore, (const trunkline_x509 *))                                                            \
    X(void *, X509_getm_notAfter, (const trunkline_x509 *))                                                             \
    X(void *, ASN1_TIME_set, (void *, time_t))                                                                          \
    X(int, X509_set_pubkey, (trunkline_x509 *, trunkline_pkey *))                                                       \
    X(trunkline_x509_name *, X509_get_subject_name, (const trunkline_x509 *))                                           \
    X(int, X509_set_issuer_name, (trunkline_x509 *, const trunkline_x509_name *))                                       \
    X(int, X509_NAME_add_entry_by_txt,                                                                                  \
      (trunkline_x509_name *, const char *field, int type, const unsigned char *, int count, int at, int set))          \
    X(trunkline_x509_extension *, X509V3_EXT_conf_nid, (void *, void *, int nid, const char *value))                    \
    X(int, X509_add_ext, (trunkline_x509 *, trunkline_x509_extension *, int at))                                        \
    X(void, X509_EXTENSION_free, (trunkline_x509_extension *))                                                          \
    X(int, X509_sign, (trunkline_x509 *, trunkline_pkey *, const void *digest))                                         \
    X(trunkline_x509_pubkey *, X509_get_X509_PUBKEY, (const trunkline_x509 *))                                          \
    X(int, i2d_X509_PUBKEY, (trunkline_x509_pubkey *, unsigned char **))                                                \
    X(unsigned char *, SHA256, (const unsigned char *, size_t, unsigned char *))                                        \
    /* Texts */                                                                                                         \
    X(const trunkline_bio_method *, BIO_s_mem, (void))                                                                  \
    X(trunkline_bio *, BIO_new, (const trunkline_bio_method *))                                                         \
    X(int, BIO_free, (trunkline_bio *))                                                                                 \
    X(long, BIO_ctrl, (trunkline_bio *, int command, long number, void *pointer))                                       \
    X(int, PEM_write_bio_X509, (trunkline_bio *, trunkline_x509 *))                                                     \
    X(int, PEM_write_bio_PKCS8PrivateKey,                                                                               \
      (trunkline_bio *, trunkline_pkey *, const void *cipher, const char *passphrase, int count, void *, void *))

/// The functions by name.
struct trunkline_x509_functions {
#define X(result, name, parameters) result(*name) parameters;
    TRUNKLINE_X509_FUNCTIONS(X)
#undef X
};

/// Returns the functions of a loaded libcrypto in memory that is never freed; null if one is missing.
static inline struct trunkline_x509_functions *trunkline_x509_find(void *crypto) {
    struct trunkline_x509_functions *table = calloc(1, sizeof *table);
    if (!table) abort();
#define X(result, name, parameters)                                                                                     \
    if (!(*(void **)&table->name = dlsym(crypto, #name))) {                                                             \
        free(table);                                                                                                    \
        return NULL;                                                                                                    \
    }
    TRUNKLINE_X509_FUNCTIONS(X)
#undef X
    return table;
}
