#pragma once

#if defined(__linux__)

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Functions of Swift's concurrency runtime that compiled Swift code calls and that Swift source code cannot name.
//
// On Linux only: on other systems, the runtime may expect signed addresses.

/// A reference to a serial executor, as in `UnownedSerialExecutor`. All zero: the default executor, or the one that the
/// task prefers.
struct trunkline_executor {
    const void *_Nullable identity;
    const void *_Nullable implementation;
};

extern __attribute__((swiftcall)) struct trunkline_executor swift_task_getCurrentExecutor(void);
extern __attribute__((swiftcall)) struct trunkline_executor swift_task_getPreferredTaskExecutor(void);
extern __attribute__((swiftcall)) void swift_task_enqueue(void *_Nonnull, struct trunkline_executor);
extern __attribute__((swiftcall)) void *_Nonnull swift_task_alloc(size_t);
extern __attribute__((swiftcall)) void swift_task_dealloc(void *_Nonnull);
extern __attribute__((swiftcall)) void *_Nullable swift_task_addCancellationHandler(
    __attribute__((swiftcall)) void (*_Nonnull)(__attribute__((swift_context)) const void *_Nonnull),
    const void *_Nonnull
);
extern __attribute__((swiftcall)) void swift_task_removeCancellationHandler(void *_Nullable);

// MARK: - Memory and executors

/// Returns memory of the current task, aligned to 16 bytes. A task frees its memory in the reverse order of the
/// allocations. If another order were possible, the runtime would stop the program.
static inline void *_Nonnull trunkline_task_alloc(size_t size) { return swift_task_alloc(size); }

static inline void trunkline_task_dealloc(void *_Nonnull memory) { swift_task_dealloc(memory); }

/// The serial executor on which the current task runs.
static inline struct trunkline_executor trunkline_current_executor(void) { return swift_task_getCurrentExecutor(); }

/// The executor that the current task prefers (`withTaskExecutorPreference`); null if it prefers none.
static inline const void *_Nullable trunkline_preferred_executor(void) {
    return swift_task_getPreferredTaskExecutor().identity;
}

/// Enqueues the job of a task on `executor`, as the runtime does when a task is resumed.
static inline void trunkline_enqueue(void *_Nonnull job, struct trunkline_executor executor) {
    swift_task_enqueue(job, executor);
}

// MARK: - The thread

/// What parking needs to know about a thread.
struct trunkline_thread {
    /// The task that is about to park on this thread.
    void *_Nullable parking;
    /// The tasks resumed by the event loop that runs on this thread.
    const void *_Nullable resumed;
};

/// Returns the record of the current thread. Call it from one source file only, and not inlined into others: each
/// compiled file that calls it has its own records.
static inline struct trunkline_thread *_Nonnull trunkline_this_thread(void) {
    static _Thread_local struct trunkline_thread thread;
    return &thread;
}

// MARK: - Cancellation

/// A cancellation handler of the current task, in memory of the task. The functions are those by which
/// `withTaskCancellationHandler` adds and removes a handler. The task that added it removes it.
struct trunkline_cancellation {
    const void *_Nonnull receiver;
    uint64_t first;
    /// Null if the task was cancelled already.
    void *_Nullable record;
    uint32_t count;
    bool is_cancelled;
};

/// Tells the receiver that the waits with `count` numbers from `first` on are cancelled. Defined in `Continuation.swift`.
extern void trunkline_cancel_waits(const void *_Nonnull receiver, uint64_t first, uint32_t count);

static __attribute__((swiftcall)) void trunkline_run_cancellation(
    __attribute__((swift_context)) const void *_Nonnull context
) {
    struct trunkline_cancellation *cancellation = (struct trunkline_cancellation *)context;
    __atomic_store_n(&cancellation->is_cancelled, true, __ATOMIC_RELEASE);
    trunkline_cancel_waits(cancellation->receiver, cancellation->first, cancellation->count);
}

/// Adds a cancellation handler to the current task, which calls `trunkline_cancel_waits` with the last three arguments:
/// at once if the task is cancelled already. `memory` is memory of the task with room for the result.
static inline struct trunkline_cancellation *_Nonnull trunkline_add_cancellation_handler(
    void *_Nonnull memory, const void *_Nonnull receiver, uint64_t first, uint32_t count
) {
    struct trunkline_cancellation *cancellation = (struct trunkline_cancellation *)memory;
    cancellation->receiver = receiver;
    cancellation->first = first;
    cancellation->count = count;
    cancellation->is_cancelled = false;
    cancellation->record = swift_task_addCancellationHandler(trunkline_run_cancellation, cancellation);
    return cancellation;
}

/// Returns whether the handler has begun to run, which means that the task is cancelled. If it returns false, a handler
/// that runs later sends its cancellation after everything that the task has posted so far.
static inline bool trunkline_is_cancelled(const struct trunkline_cancellation *_Nonnull cancellation) {
    return __atomic_load_n(&cancellation->is_cancelled, __ATOMIC_ACQUIRE);
}

/// Removes the handler that was added last. Afterwards it is not running and is not called.
static inline void trunkline_remove_cancellation_handler(struct trunkline_cancellation *_Nonnull cancellation) {
    swift_task_removeCancellationHandler(cancellation->record);
}

#endif
