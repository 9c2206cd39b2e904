// Copies a large value at each read: what the count of instructions has to find. `count.py --prove` starts the gateway with it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// 2 KiB, a word at a time, as Swift values with many fields are copied.
static const volatile uint64_t value[256];

static void copy_value(void) {
    volatile uint64_t copy[256];
    for (size_t index = 0; index < sizeof value / sizeof value[0]; index++) copy[index] = value[index];
}

typedef ssize_t (*read_function)(int, void *, size_t);
typedef ssize_t (*recv_function)(int, void *, size_t, int);

ssize_t read(int descriptor, void *buffer, size_t count) {
    static read_function next;
    if (!next) next = (read_function)dlsym(RTLD_NEXT, "read");
    copy_value();
    return next(descriptor, buffer, count);
}

ssize_t recv(int descriptor, void *buffer, size_t count, int flags) {
    static recv_function next;
    if (!next) next = (recv_function)dlsym(RTLD_NEXT, "recv");
    copy_value();
    return next(descriptor, buffer, count, flags);
}
