#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Swift Testing starts every test at once unless a maximum is set. About fifteen hundred tests on a few processors would
// delay each other, and tests in real time would exceed their time limits. This sets a maximum of eight, or two for each
// processor if there are more than four, before Swift Testing reads the variable. A simulation counts while it waits for
// its threads.
//
// A variable that is already set is kept. Swift 6.2 does not know the variable, and starts all tests at once.
__attribute__((constructor)) static void setTestWidth(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    char width[16];
    snprintf(width, sizeof width, "%ld", processors > 4 ? 2 * processors : 8);
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", width, 0);
}
