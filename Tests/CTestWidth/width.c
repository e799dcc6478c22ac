#include <stdlib.h>

// Swift Testing begins every test at once unless it is told how many may run at a time. Where some fifteen hundred share a
// few processors, those whose time is real are out of time by no fault of theirs, so this says eight, before `main`.
// Whoever sets the variable is obeyed.
__attribute__((constructor)) static void setTestWidth(void) {
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", "8", 0);
}
