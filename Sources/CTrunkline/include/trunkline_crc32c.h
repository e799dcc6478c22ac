#pragma once

// CRC-32C with the processor's instruction, which is not in the baseline instruction set of the other code.

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)

#include <cpuid.h>

#define TRUNKLINE_CRC32C __attribute__((target("sse4.2")))
#define trunkline_crc32c_word(crc, word) ((uint32_t)__builtin_ia32_crc32di(crc, word))
#define trunkline_crc32c_byte(crc, byte) __builtin_ia32_crc32qi(crc, byte)

static inline int trunkline_crc32c_is_available(void) {
    unsigned int eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_SSE4_2) != 0;
}

#elif defined(__aarch64__) && (defined(__ARM_FEATURE_CRC32) || defined(__linux__))

#define TRUNKLINE_CRC32C __attribute__((target("crc")))
#define trunkline_crc32c_word(crc, word) __builtin_arm_crc32cd(crc, word)
#define trunkline_crc32c_byte(crc, byte) __builtin_arm_crc32cb(crc, byte)

#if defined(__ARM_FEATURE_CRC32)
static inline int trunkline_crc32c_is_available(void) { return 1; }
#else
#include <sys/auxv.h>
/// The kernel's bit for the CRC32 instructions of arm64 (HWCAP_CRC32).
static inline int trunkline_crc32c_is_available(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }
#endif

#else

static inline int trunkline_crc32c_is_available(void) { return 0; }

#endif

#if defined(TRUNKLINE_CRC32C)

/// Returns the remainder `crc` updated with `count` bytes. Call it only if the instruction is available.
TRUNKLINE_CRC32C static inline uint32_t trunkline_crc32c(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *next = (const unsigned char *)bytes;
    for (; count >= 8; next += 8, count -= 8) {
        uint64_t word;
        __builtin_memcpy(&word, next, 8);
        crc = trunkline_crc32c_word(crc, word);
    }
    for (; count > 0; next++, count--) crc = trunkline_crc32c_byte(crc, *next);
    return crc;
}

#else

static inline uint32_t trunkline_crc32c(uint32_t crc, const void *bytes, size_t count) { return crc; }

#endif
