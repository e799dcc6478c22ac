#pragma once

#include <stdint.h>

/// How often this process has asked for memory (malloc, calloc, realloc and their aligned kin), all threads together;
/// negative where nobody counts: outside of glibc, and under a sanitizer, which has an allocator of its own.
int64_t trunkline_bench_allocations(void);
