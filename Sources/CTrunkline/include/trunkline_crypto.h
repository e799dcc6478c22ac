#pragma once

// Functions of OpenSSL's libcrypto (evp.h of 1.1 and 3) that are looked up by name at run time. Nothing links to it.

#include <stddef.h>

/// EVP_MD_fetch(library context, name, properties), since 3.0.
typedef const void *(*trunkline_evp_md_fetch)(void *, const char *, const char *);
/// EVP_md5, EVP_sha1, EVP_sha256, EVP_sha512.
typedef const void *(*trunkline_evp_md)(void);
/// EVP_MD_CTX_new.
typedef void *(*trunkline_evp_md_ctx_new)(void);
/// EVP_MD_CTX_free.
typedef void (*trunkline_evp_md_ctx_free)(void *);
/// EVP_DigestInit_ex(context, algorithm, engine); 1 for success, also for the next two.
typedef int (*trunkline_evp_digest_init)(void *, const void *, void *);
/// EVP_DigestUpdate(context, bytes, count).
typedef int (*trunkline_evp_digest_update)(void *, const void *, size_t);
/// EVP_DigestFinal_ex(context, digest of up to 64 bytes, its size).
typedef int (*trunkline_evp_digest_final)(void *, unsigned char *, unsigned int *);
/// HMAC(algorithm, key, its size, bytes, count, code of up to 64 bytes, its size); a null pointer for failure.
typedef unsigned char *(*trunkline_hmac)(const void *, const void *, int, const unsigned char *, size_t,
                                         unsigned char *, unsigned int *);
/// PKCS5_PBKDF2_HMAC(password, its size, salt, its size, iterations, algorithm, count, key); 1 for success.
typedef int (*trunkline_pbkdf2)(const char *, int, const unsigned char *, int, int, const void *, int,
                                unsigned char *);
