#pragma once

// A timer that reports when the clock jumps, timerfd_create(2), and addresses of vsock(7). Linux only.
#if defined(__linux__)

// Do not include sys/timerfd.h: the compiler would treat its structures, which Glibc declares too, as declared by this
// module only. These prototypes are those of a C library whose `time_t` is a `long`.
struct trunkline_timer {
    long interval_seconds, interval_nanoseconds, seconds, nanoseconds;
};
extern int timerfd_create(int clock, int flags);
extern int timerfd_settime(int descriptor, int flags, const struct trunkline_timer *, struct trunkline_timer *);

/// Makes a timer of `trunkline_clock_watch` report the next jump of the clock.
static inline void trunkline_clock_watch_again(int descriptor) {
    // The timer never expires.
    struct trunkline_timer never = {.seconds = __LONG_MAX__};
    // An error means that the clock has just jumped again; the timer is set nevertheless.
    timerfd_settime(descriptor, 1 | 2, &never, 0);  // TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET
}

/// Creates a timer that becomes readable, with ECANCELED, when the clock is set or the machine wakes up. The flags are
/// those of `open`. Returns a negative number and sets `errno` on failure.
static inline int trunkline_clock_watch(int flags) {
    int descriptor = timerfd_create(0, flags);  // CLOCK_REALTIME
    if (descriptor >= 0) trunkline_clock_watch_again(descriptor);
    return descriptor;
}

// The address of a virtual machine or its host: `struct sockaddr_vm` of linux/vm_sockets.h.
struct trunkline_vsock_address {
    unsigned short family, reserved;
    unsigned port, cid;
    unsigned char zero[4];
};

#endif
