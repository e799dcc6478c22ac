#pragma once

// Functions of OpenSSL's libcrypto (evp.h of 1.1 and 3) that are looked up by name at run time. Nothing links to it.

#include <stddef.h>

/// EVP_MD_fetch(library context, name, properties), since 3.0.
typedef const void *(*trunkline_evp_md_fetch)(void *, const char *, const char *);
/// EVP_md5, EVP_sha256.
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
