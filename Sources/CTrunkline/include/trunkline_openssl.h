#pragma once

// The functions of OpenSSL's libssl and libcrypto (1.1.1 and 3) that TLS needs. Nothing links to either: they are
// loaded when a program first uses TLS. Prototypes as in ssl.h, bio.h, x509.h, x509_vfy.h, pem.h, evp.h and err.h.

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef struct trunkline_ssl_ctx trunkline_ssl_ctx;
typedef struct trunkline_ssl trunkline_ssl;
typedef struct trunkline_ssl_session trunkline_ssl_session;
typedef struct trunkline_bio trunkline_bio;
typedef struct trunkline_bio_method trunkline_bio_method;
typedef struct trunkline_x509 trunkline_x509;
typedef struct trunkline_x509_store trunkline_x509_store;
typedef struct trunkline_store_ctx trunkline_store_ctx;
typedef struct trunkline_x509_pubkey trunkline_x509_pubkey;
typedef struct trunkline_pkey trunkline_pkey;
typedef struct trunkline_verify_param trunkline_verify_param;
typedef struct trunkline_stack trunkline_stack;

/// int callback(buffer, its size, reading (0) or writing (1), user data): returns the size of the passphrase, or -1.
typedef int (*trunkline_passphrase_callback)(char *, int, int, void *);
/// int callback(ssl, chosen, its size, offered, their size, user data): 0 to accept.
typedef int (*trunkline_alpn_callback)(trunkline_ssl *, const unsigned char **, unsigned char *, const unsigned char *,
                                       unsigned int, void *);

/// int callback(store context, user data): 1 to accept.
typedef int (*trunkline_verify_callback)(trunkline_store_ctx *, void *);

/// int callback(whether the certificate is accepted so far, store context): 1 to accept.
typedef int (*trunkline_certificate_callback)(int, trunkline_store_ctx *);

/// void callback(ssl, what happened, its value).
typedef void (*trunkline_info_callback)(const trunkline_ssl *, int, int);

/// Applies X(result, name, parameters) to every function.
#define TRUNKLINE_OPENSSL_FUNCTIONS(X)                                                                                  \
    /* The library */                                                                                                   \
    X(int, OPENSSL_init_ssl, (uint64_t options, const void *settings))                                                  \
    X(unsigned long, OpenSSL_version_num, (void))                                                                       \
    /* Contexts */                                                                                                      \
    X(const void *, TLS_client_method, (void))                                                                          \
    X(const void *, TLS_server_method, (void))                                                                          \
    X(trunkline_ssl_ctx *, SSL_CTX_new, (const void *method))                                                           \
    X(void, SSL_CTX_free, (trunkline_ssl_ctx *))                                                                        \
    X(long, SSL_CTX_ctrl, (trunkline_ssl_ctx *, int command, long number, void *pointer))                               \
    X(uint64_t, SSL_CTX_set_options, (trunkline_ssl_ctx *, uint64_t options))                                           \
    X(void, SSL_CTX_set_verify, (trunkline_ssl_ctx *, int mode, trunkline_certificate_callback))                        \
    X(void, SSL_CTX_set_cert_verify_callback, (trunkline_ssl_ctx *, trunkline_verify_callback, void *))                 \
    X(trunkline_x509_store *, SSL_CTX_get_cert_store, (const trunkline_ssl_ctx *))                                      \
    X(int, SSL_CTX_set_default_verify_paths, (trunkline_ssl_ctx *))                                                     \
    X(int, SSL_CTX_use_certificate, (trunkline_ssl_ctx *, trunkline_x509 *))                                            \
    X(int, SSL_CTX_use_PrivateKey, (trunkline_ssl_ctx *, trunkline_pkey *))                                             \
    X(int, SSL_CTX_check_private_key, (const trunkline_ssl_ctx *))                                                      \
    X(int, SSL_CTX_set_alpn_protos, (trunkline_ssl_ctx *, const unsigned char *, unsigned int))                         \
    X(void, SSL_CTX_set_alpn_select_cb, (trunkline_ssl_ctx *, trunkline_alpn_callback, void *))                         \
    X(int, SSL_CTX_set_session_id_context, (trunkline_ssl_ctx *, const unsigned char *, unsigned int))                  \
    /* Connections */                                                                                                   \
    X(trunkline_ssl *, SSL_new, (trunkline_ssl_ctx *))                                                                  \
    X(void, SSL_free, (trunkline_ssl *))                                                                                \
    X(void, SSL_set_bio, (trunkline_ssl *, trunkline_bio *reads, trunkline_bio *writes))                                \
    X(void, SSL_set_connect_state, (trunkline_ssl *))                                                                   \
    X(void, SSL_set_accept_state, (trunkline_ssl *))                                                                    \
    X(void, SSL_set_cert_cb, (trunkline_ssl *, int (*)(trunkline_ssl *, void *), void *))                               \
    X(void, SSL_set_info_callback, (trunkline_ssl *, trunkline_info_callback))                                          \
    X(long, SSL_ctrl, (trunkline_ssl *, int command, long number, void *pointer))                                       \
    X(int, SSL_do_handshake, (trunkline_ssl *))                                                                         \
    X(int, SSL_read_ex, (trunkline_ssl *, void *, size_t, size_t *count))                                               \
    X(int, SSL_peek_ex, (trunkline_ssl *, void *, size_t, size_t *count))                                               \
    X(int, SSL_write_ex, (trunkline_ssl *, const void *, size_t, size_t *count))                                        \
    X(int, SSL_pending, (const trunkline_ssl *))                                                                        \
    X(int, SSL_has_pending, (const trunkline_ssl *))                                                                    \
    X(int, SSL_free_buffers, (trunkline_ssl *))                                                                         \
    X(int, SSL_shutdown, (trunkline_ssl *))                                                                             \
    X(void, SSL_set_shutdown, (trunkline_ssl *, int))                                                                   \
    X(int, SSL_get_error, (const trunkline_ssl *, int result))                                                          \
    X(const char *, SSL_get_version, (const trunkline_ssl *))                                                           \
    X(const void *, SSL_get_current_cipher, (const trunkline_ssl *))                                                    \
    X(const char *, SSL_CIPHER_get_name, (const void *))                                                                \
    X(void, SSL_get0_alpn_selected, (const trunkline_ssl *, const unsigned char **, unsigned int *count))               \
    X(long, SSL_get_verify_result, (const trunkline_ssl *))                                                             \
    X(trunkline_x509 *, SSL_get_certificate, (const trunkline_ssl *))                                                   \
    X(trunkline_verify_param *, SSL_get0_param, (trunkline_ssl *))                                                      \
    X(int, SSL_set_session, (trunkline_ssl *, trunkline_ssl_session *))                                                 \
    X(trunkline_ssl_session *, SSL_get1_session, (trunkline_ssl *))                                                     \
    X(void, SSL_SESSION_free, (trunkline_ssl_session *))                                                                \
    X(int, SSL_SESSION_is_resumable, (const trunkline_ssl_session *))                                                   \
    X(int, SSL_session_reused, (const trunkline_ssl *))                                                                 \
    X(int, SSL_key_update, (trunkline_ssl *, int type))                                                                 \
    /* Verification */                                                                                                  \
    X(int, X509_VERIFY_PARAM_set1_host, (trunkline_verify_param *, const char *, size_t))                               \
    X(int, X509_VERIFY_PARAM_set1_ip, (trunkline_verify_param *, const unsigned char *, size_t))                        \
    X(void, X509_VERIFY_PARAM_set_hostflags, (trunkline_verify_param *, unsigned int))                                  \
    X(int, X509_STORE_add_cert, (trunkline_x509_store *, trunkline_x509 *))                                             \
    X(const char *, X509_get_default_cert_file, (void))                                                                 \
    X(const char *, X509_get_default_cert_dir, (void))                                                                  \
    X(const char *, X509_verify_cert_error_string, (long))                                                              \
    X(int, X509_verify_cert, (trunkline_store_ctx *))                                                                   \
    X(trunkline_stack *, X509_STORE_CTX_get0_chain, (const trunkline_store_ctx *))                                      \
    X(trunkline_x509 *, X509_STORE_CTX_get0_cert, (const trunkline_store_ctx *))                                        \
    X(void, X509_STORE_CTX_set_error, (trunkline_store_ctx *, int))                                                     \
    X(trunkline_x509 *, X509_STORE_CTX_get_current_cert, (const trunkline_store_ctx *))                                 \
    X(void *, X509_STORE_CTX_get_ex_data, (const trunkline_store_ctx *, int index))                                     \
    X(int, SSL_get_ex_data_X509_STORE_CTX_idx, (void))                                                                  \
    X(trunkline_bio *, SSL_get_rbio, (const trunkline_ssl *))                                                           \
    X(int, OPENSSL_sk_num, (const trunkline_stack *))                                                                   \
    X(void *, OPENSSL_sk_value, (const trunkline_stack *, int))                                                         \
    /* Certificates and keys */                                                                                         \
    X(trunkline_x509 *, PEM_read_bio_X509, (trunkline_bio *, trunkline_x509 **, trunkline_passphrase_callback, void *)) \
    X(trunkline_pkey *, PEM_read_bio_PrivateKey,                                                                        \
      (trunkline_bio *, trunkline_pkey **, trunkline_passphrase_callback, void *))                                      \
    X(void, X509_free, (trunkline_x509 *))                                                                              \
    X(trunkline_x509_pubkey *, X509_get_X509_PUBKEY, (const trunkline_x509 *))                                          \
    X(int, i2d_X509_PUBKEY, (trunkline_x509_pubkey *, unsigned char **))                                                \
    X(const void *, X509_get0_notBefore, (const trunkline_x509 *))                                                      \
    X(const void *, X509_get0_notAfter, (const trunkline_x509 *))                                                       \
    X(int, X509_cmp_current_time, (const void *time))                                                                   \
    X(int, ASN1_TIME_to_tm, (const void *time, struct tm *))                                                            \
    X(void *, X509_get_subject_name, (const trunkline_x509 *))                                                          \
    X(char *, X509_NAME_oneline, (const void *name, char *, int size))                                                  \
    X(void, EVP_PKEY_free, (trunkline_pkey *))                                                                          \
    X(unsigned char *, SHA256, (const unsigned char *, size_t, unsigned char *))                                        \
    /* What a certificate says */                                                                                       \
    X(trunkline_stack *, SSL_get_peer_cert_chain, (const trunkline_ssl *))                                              \
    X(const void *, X509_get_issuer_name, (const trunkline_x509 *))                                                     \
    X(trunkline_stack *, X509_get_ext_d2i, (const trunkline_x509 *, int nid, int *critical, int *index))                \
    X(int, i2d_X509, (const trunkline_x509 *, unsigned char **))                                                        \
    X(int, X509_NAME_print_ex, (trunkline_bio *, const void *name, int indentation, unsigned long flags))               \
    X(const void *, GENERAL_NAME_get0_value, (const void *, int *type))                                                 \
    X(void, GENERAL_NAMES_free, (trunkline_stack *))                                                                    \
    X(const unsigned char *, ASN1_STRING_get0_data, (const void *))                                                     \
    X(int, ASN1_STRING_length, (const void *))                                                                          \
    X(void *, ASN1_TIME_set, (void *, time_t))                                                                          \
    X(int, ASN1_TIME_diff, (int *days, int *seconds, const void *from, const void *to))                                 \
    X(void, ASN1_TIME_free, (void *))                                                                                   \
    /* Bytes in and out */                                                                                              \
    X(trunkline_bio *, BIO_new, (const trunkline_bio_method *))                                                         \
    X(const trunkline_bio_method *, BIO_s_mem, (void))                                                                  \
    X(long, BIO_ctrl, (trunkline_bio *, int command, long number, void *pointer))                                       \
    X(trunkline_bio *, BIO_new_mem_buf, (const void *, int))                                                            \
    X(int, BIO_free, (trunkline_bio *))                                                                                 \
    X(int, BIO_get_new_index, (void))                                                                                   \
    X(trunkline_bio_method *, BIO_meth_new, (int type, const char *name))                                               \
    X(int, BIO_meth_set_read, (trunkline_bio_method *, int (*)(trunkline_bio *, char *, int)))                          \
    X(int, BIO_meth_set_write, (trunkline_bio_method *, int (*)(trunkline_bio *, const char *, int)))                   \
    X(int, BIO_meth_set_ctrl, (trunkline_bio_method *, long (*)(trunkline_bio *, int, long, void *)))                   \
    X(void, BIO_set_data, (trunkline_bio *, void *))                                                                    \
    X(void *, BIO_get_data, (trunkline_bio *))                                                                          \
    X(void, BIO_set_flags, (trunkline_bio *, int))                                                                      \
    X(void, BIO_clear_flags, (trunkline_bio *, int))                                                                    \
    /* Errors, of the calling thread */                                                                                 \
    X(unsigned long, ERR_get_error, (void))                                                                             \
    X(void, ERR_clear_error, (void))                                                                                    \
    X(void, ERR_error_string_n, (unsigned long, char *, size_t))

/// The functions by name.
struct trunkline_openssl {
#define X(result, name, parameters) result(*name) parameters;
    TRUNKLINE_OPENSSL_FUNCTIONS(X)
#undef X
};

/// Returns the functions of two loaded libraries in memory that is never freed. If a function is in neither library,
/// returns null and sets `missing` to its name.
static inline struct trunkline_openssl *trunkline_openssl_find(void *ssl, void *crypto,
                                                                         const char **missing) {
    struct trunkline_openssl *table = calloc(1, sizeof *table);
    if (!table) abort();
#define X(result, name, parameters)                                                                                     \
    {                                                                                                                   \
        void *address = dlsym(ssl, #name);                                                                              \
        if (!address) address = dlsym(crypto, #name);                                                                   \
        if (!address) {                                                                                                 \
            *missing = #name;                                                                                           \
            free(table);                                                                                                \
            return NULL;                                                                                                \
        }                                                                                                               \
        *(void **)&table->name = address;                                                                               \
    }
    TRUNKLINE_OPENSSL_FUNCTIONS(X)
#undef X
    return table;
}
