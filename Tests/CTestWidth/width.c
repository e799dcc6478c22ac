#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Swift Testing begins every test at once unless it is told how many may run at a time. Where some fifteen hundred share a
// few processors, those whose time is real are out of time by no fault of theirs. So this says eight, or two for each
// processor, before Swift Testing looks. Simulations count while they wait for their threads.
//
// Whoever sets the variable is obeyed. Swift 6.2 does not know it, and begins all at once.
__attribute__((constructor)) static void setTestWidth(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    char width[16];
    snprintf(width, sizeof width, "%ld", processors > 4 ? 2 * processors : 8);
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", width, 0);
}
