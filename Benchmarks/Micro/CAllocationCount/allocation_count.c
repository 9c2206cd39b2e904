// Stands in front of the C library's allocator in the program that links it, and counts.

#include "allocation_count.h"

#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static atomic_long count;

long allocation_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

static void counted(void) { atomic_fetch_add_explicit(&count, 1, memory_order_relaxed); }

void *malloc(size_t size) {
    counted();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    counted();
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
    counted();
    return __libc_realloc(memory, size);
}
