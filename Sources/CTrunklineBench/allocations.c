// Counts allocations by replacing glibc's allocation functions: every library in the process calls the executable's own
// definition of malloc. Also lets valgrind count instructions: see `sigsuspend`. One file, because valgrind 3.19 cannot
// read the debug information of two. For the benchmark only; no library of the package links this.

#include "CTrunklineBench.h"

#include <stdlib.h>

// Not inlined, and not left before `body` returns, so that valgrind sees where it begins and ends.
__attribute__((noinline)) void trunkline_bench_measured(void (*body)(void *), void *context) {
    body(context);
    __asm__ volatile("" ::: "memory");
}

#ifndef __has_feature
#define __has_feature(name) 0
#endif

#if defined(__linux__) && defined(__GLIBC__) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

// One counter per thread, each on its own cache line, so that counting costs about a nanosecond. Beyond shardCount
// threads, threads share counters.
enum { shardCount = 64 };
static struct {
    _Alignas(128) atomic_llong count;
} shards[shardCount];
static atomic_uint threads;
static _Thread_local unsigned shardOfThread;  // 0 until the thread has one

static inline void count(void) {
    if (shardOfThread == 0) shardOfThread = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % shardCount;
    atomic_llong *counter = &shards[shardOfThread - 1].count;
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
    count();
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
    count();
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *result = memory;
    return 0;
}

int64_t trunkline_bench_allocations(void) {
    int64_t sum = 0;
    for (int index = 0; index < shardCount; index++) {
        sum += atomic_load_explicit(&shards[index].count, memory_order_relaxed);
    }
    return sum;
}

int64_t trunkline_bench_bytes_in_use(void) {
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
#else
    return -1;
#endif
}

// The main thread of a Swift program with an asynchronous main function waits here, with a mask in read-only memory.
// Valgrind writes to the mask and crashes, so it gets a copy.
int sigsuspend(const sigset_t *mask) {
    sigset_t copy = *mask;
    return (int)syscall(SYS_rt_sigsuspend, &copy, _NSIG / 8);
}

#else

int64_t trunkline_bench_allocations(void) { return -1; }
int64_t trunkline_bench_bytes_in_use(void) { return -1; }

#endif
