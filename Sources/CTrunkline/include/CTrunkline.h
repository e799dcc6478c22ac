#pragma once

#include "trunkline_child.h"
#include "trunkline_crc32c.h"
#include "trunkline_crypto.h"
#include "trunkline_network.h"
#include "trunkline_openssl.h"
#include "trunkline_tasks.h"
#include "trunkline_x509.h"

// System calls that Swift's Glibc module does not export, in a form that Swift can call without unsafe unions.
#if defined(__linux__)

// Do not define _GNU_SOURCE: `fd_set` and other types would then differ from those in Swift's Glibc module, and the
// importer would reject one or the other, depending on which file is compiled first.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

// Prototypes that only _GNU_SOURCE declares.
extern int accept4(int, struct sockaddr *, socklen_t *, int);
extern int pthread_setname_np(pthread_t, const char *);

/// Returns the nanoseconds of `time`. In C, because the importer attributes the fields of `timespec` to one of several
/// modules, depending on which file is compiled first.
static inline int64_t trunkline_nanoseconds(struct timespec time) {
    return (int64_t)((uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec);
}

/// Returns the nanoseconds of a clock of the system.
static inline int64_t trunkline_clock(clockid_t clock) {
    struct timespec time = {0, 0};
    clock_gettime(clock, &time);
    return trunkline_nanoseconds(time);
}

static inline int trunkline_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

static inline int trunkline_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

/// Adds, changes or removes (if neither direction is set) a descriptor.
static inline int trunkline_epoll_watch(int epoll, int descriptor, uint64_t id, int reading, int writing, int isNew) {
    struct epoll_event event = {0};
    event.events = (reading ? EPOLLIN : 0) | (writing ? EPOLLOUT : 0);
    event.data.u64 = id;
    int operation = event.events == 0 ? EPOLL_CTL_DEL : isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return epoll_ctl(epoll, operation, descriptor, &event);
}

/// Waits for events. Writes the ids and the directions (1 readable, 2 writable, both after an error) of ready
/// descriptors.
static inline int trunkline_epoll_wait(int epoll, uint64_t *ids, uint8_t *directions, int limit, int milliseconds) {
    struct epoll_event events[256];
    int count = epoll_wait(epoll, events, limit < 256 ? limit : 256, milliseconds);
    for (int index = 0; index < count; index++) {
        uint32_t flags = events[index].events;
        int failed = (flags & (EPOLLERR | EPOLLHUP)) != 0;
        ids[index] = events[index].data.u64;
        directions[index] = (failed || (flags & EPOLLIN) ? 1 : 0) | (failed || (flags & EPOLLOUT) ? 2 : 0);
    }
    return count;
}

// Defined by the thread sanitizer's runtime; null without it.
extern void __tsan_acquire(void *) __attribute__((weak));

static inline int trunkline_tsan_is_on(void) { return __tsan_acquire != 0; }

static inline int trunkline_accept(int listener) { return accept4(listener, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC); }

static inline void trunkline_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

#endif
