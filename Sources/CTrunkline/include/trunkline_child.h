#pragma once

// What child processes need: functions that Swift's modules of the C library do not export.
#if defined(__linux__)

#include <fcntl.h>
#include <stdint.h>

// Do not include spawn.h or sys/wait.h: the compiler would treat their types, which Glibc declares too, as declared by this
// module only. These are the prototypes with other names. The two weak functions are missing from older C libraries.
extern int trunkline_c_pipe2(int *, int) __asm__("pipe2");
extern int trunkline_c_waitid(int, unsigned, void *, int) __asm__("waitid");
extern int trunkline_c_addchdir(void *, const char *) __asm__("posix_spawn_file_actions_addchdir_np")
    __attribute__((weak));
extern int trunkline_c_addclosefrom(void *, int) __asm__("posix_spawn_file_actions_addclosefrom_np")
    __attribute__((weak));
extern int trunkline_c_prctl(int, ...) __asm__("prctl");
extern int trunkline_c_getpid(void) __asm__("getpid");
extern long trunkline_c_syscall(long, ...) __asm__("syscall");
extern char **environ;

/// Creates a pipe whose ends are closed when a program is executed. Returns a negative number and sets `errno` on failure.
static inline int trunkline_pipe(int *ends) { return trunkline_c_pipe2(ends, O_CLOEXEC); }

/// Lets a child begin in the directory `path`. Returns 0 or an error number.
static inline int trunkline_spawn_in_directory(void *actions, const char *path) {
    return trunkline_c_addchdir ? trunkline_c_addchdir(actions, path) : 38;  // ENOSYS
}

/// Closes all other descriptors in a child, if the C library can. Otherwise it gets those that are not O_CLOEXEC.
static inline int trunkline_spawn_without_others(void *actions) {
    return trunkline_c_addclosefrom ? trunkline_c_addclosefrom(actions, 3) : 0;
}

/// Returns a descriptor that is readable once the process has ended (Linux 5.3); -1 on failure.
static inline int trunkline_pidfd_open(int process) { return (int)trunkline_c_syscall(434, process, 0); }

/// Whether the child has ended and was not waited for: 1 or 0; -1 if it is no child of this process any more. Does not wait
/// for it.
static inline int trunkline_child_has_ended(int process) {
    int32_t information[64] = {0};  // siginfo_t, which begins with the number of the signal
    int code = trunkline_c_waitid(1, (unsigned)process, information, 0x01000005);  // P_PID, WEXITED WNOHANG WNOWAIT
    return code < 0 ? -1 : information[0] != 0;
}

/// Sends `signal` to the process of a descriptor of `trunkline_pidfd_open`, never to another one that has got its number.
/// Returns a negative number on failure.
static inline int trunkline_pidfd_signal(int descriptor, int signal) {
    return (int)trunkline_c_syscall(424, descriptor, signal, 0, 0);
}

/// Waits for a child that has ended and is in the process group `group`, without blocking: 1 if there was one, 0 if there are
/// only children that run, -1 if there are none.
static inline int trunkline_reap_in_group(int group) {
    int32_t information[64] = {0};
    int code = trunkline_c_waitid(2, (unsigned)group, information, 0x00000005);  // P_PGID, WEXITED WNOHANG
    return code < 0 ? -1 : information[0] != 0;
}

/// Whether processes whose parent has ended become children of this process: it is process 1 of its namespace, or has asked
/// for them (`PR_SET_CHILD_SUBREAPER`).
static inline int trunkline_is_reaper(void) {
    int answer = 0;
    if (trunkline_c_getpid() == 1) return 1;
    return trunkline_c_prctl(37, &answer) == 0 && answer != 0;
}

/// Lets processes whose parent has ended become children of this process. For tests.
static inline int trunkline_become_reaper(void) { return trunkline_c_prctl(36, 1, 0, 0, 0); }

static inline char **trunkline_environment(void) { return environ; }

#elif defined(__APPLE__)

#include <crt_externs.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static inline int trunkline_child_has_ended(int process) {
    siginfo_t information;
    memset(&information, 0, sizeof information);
    int code = waitid(P_PID, (id_t)process, &information, WEXITED | WNOHANG | WNOWAIT);
    return code < 0 ? -1 : information.si_pid != 0;
}

#endif
