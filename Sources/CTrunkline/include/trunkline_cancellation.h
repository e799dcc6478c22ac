#pragma once

#if defined(__linux__)

#include <stddef.h>
#include <stdint.h>

// The functions of Swift's concurrency runtime by which `withTaskCancellationHandler` adds a handler to the current task
// and removes it. Every handler is removed by the task that added it, in the reverse order of the additions. If another
// order were possible, the runtime would stop the program: it frees the memory of a task in this order only.
//
// On Linux only: on other systems, the runtime may expect that the address of the handler is signed.

typedef __attribute__((swiftcall)) void (*trunkline_swift_handler)(__attribute__((swift_context)) const void *);

extern __attribute__((swiftcall)) void *swift_task_addCancellationHandler(trunkline_swift_handler, const void *);
extern __attribute__((swiftcall)) void swift_task_removeCancellationHandler(void *);
extern __attribute__((swiftcall)) void *swift_task_alloc(size_t);
extern __attribute__((swiftcall)) void swift_task_dealloc(void *);

/// A cancellation handler of the current task, in memory of the task.
struct trunkline_cancellation {
    void (*handler)(const void *, uint64_t, uint64_t);
    const void *receiver;
    uint64_t first, last;
    void *record;
};

static __attribute__((swiftcall)) void trunkline_run_cancellation(
    __attribute__((swift_context)) const void *context
) {
    const struct trunkline_cancellation *cancellation = (const struct trunkline_cancellation *)context;
    cancellation->handler(cancellation->receiver, cancellation->first, cancellation->last);
}

/// Adds a cancellation handler to the current task: `handler`, which is called with the other arguments. If the task is
/// cancelled already, it is called at once.
static inline void *trunkline_add_cancellation_handler(
    void (*handler)(const void *, uint64_t, uint64_t), const void *receiver, uint64_t first, uint64_t last
) {
    struct trunkline_cancellation *cancellation =
        (struct trunkline_cancellation *)swift_task_alloc(sizeof(struct trunkline_cancellation));
    cancellation->handler = handler;
    cancellation->receiver = receiver;
    cancellation->first = first;
    cancellation->last = last;
    cancellation->record = swift_task_addCancellationHandler(trunkline_run_cancellation, cancellation);
    return cancellation;
}

/// Removes the handler that was added last. Afterwards it is not running and is not called.
static inline void trunkline_remove_cancellation_handler(void *added) {
    struct trunkline_cancellation *cancellation = (struct trunkline_cancellation *)added;
    swift_task_removeCancellationHandler(cancellation->record);
    swift_task_dealloc(cancellation);
}

#endif
