#pragma once

// A timer that tells when the clock jumps: timerfd_create(2). Linux alone.
#if defined(__linux__)

// Without sys/timerfd.h: the compiler would take its structures, which are Glibc's too, for those of this module alone. These
// are the C library's functions for a `time_t` that is a `long`.
struct trunkline_timer {
    long interval_seconds, interval_nanoseconds, seconds, nanoseconds;
};
extern int timerfd_create(int clock, int flags);
extern int timerfd_settime(int descriptor, int flags, const struct trunkline_timer *, struct trunkline_timer *);

/// Lets a timer of `trunkline_clock_watch` tell of the next jump of the clock.
static inline void trunkline_clock_watch_again(int descriptor) {
    // It never runs out.
    struct trunkline_timer never = {.seconds = __LONG_MAX__};
    // An error says that the clock has just jumped once more; the timer is set all the same.
    timerfd_settime(descriptor, 1 | 2, &never, 0);  // TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET
}

/// Makes a timer that becomes readable, with ECANCELED, when the clock is set or the machine wakes up; the flags are those of
/// `open`. Negative with `errno` set on failure.
static inline int trunkline_clock_watch(int flags) {
    int descriptor = timerfd_create(0, flags);  // CLOCK_REALTIME
    if (descriptor >= 0) trunkline_clock_watch_again(descriptor);
    return descriptor;
}

#endif
