// Makes the slow path of Swift's Mutex visible to the thread sanitizer.
//
// A Mutex that is free is taken by instructions in the program, which the sanitizer sees. One that is contended is taken
// and given back inside the Swift library, which is not instrumented: without this, whatever such a lock protects is
// reported as a race. Preloaded by `scripts/soak thread`; the symbols are those of Swift 6.2 and 6.3 on Linux.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

void __tsan_acquire(void *);
void __tsan_release(void *);

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

SWIFT void lock_slow(uint32_t thread, SELF void *mutex) __asm__(LOCK_SLOW);
SWIFT void lock_slow(uint32_t thread, SELF void *mutex) {
    ((SWIFT void (*)(uint32_t, SELF void *))real(LOCK_SLOW))(thread, mutex);
    __tsan_acquire(mutex);
}

SWIFT void unlock_slow(SELF void *mutex) __asm__(UNLOCK_SLOW);
SWIFT void unlock_slow(SELF void *mutex) {
    __tsan_release(mutex);
    ((SWIFT void (*)(SELF void *))real(UNLOCK_SLOW))(mutex);
}
