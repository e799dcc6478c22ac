#pragma once

#include <stdint.h>

/// Returns the number of allocations by all threads of this process (malloc, calloc, realloc and the aligned variants).
/// Negative if they are not counted: without glibc, and under a sanitizer, which has its own allocator.
int64_t trunkline_bench_allocations(void);

/// Returns the bytes of all allocations that are in use. Negative if unknown.
int64_t trunkline_bench_bytes_in_use(void);

/// Calls `body` with `context`. Valgrind, which finds the function by its name, counts the instructions of each call.
void trunkline_bench_measured(void (*body)(void *context), void *context);
