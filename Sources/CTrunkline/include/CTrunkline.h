#pragma once

// System calls that Swift's Glibc module does not export.
#if defined(__linux__)
#include <sys/epoll.h>
#include <sys/eventfd.h>
#endif
