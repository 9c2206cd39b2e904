// Loaded into the program: a disk that does not answer. As long as there is the file HOLD_SYNC, a file whose path contains the
// text in it is not written to the disk: the call waits.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_held(int descriptor) {
    const char *path = getenv("HOLD_SYNC");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return false;
    char wanted[256] = {0}, link[64], name[4096] = {0};
    ssize_t length = read(file, wanted, sizeof wanted - 1);
    close(file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    return length > 0 && readlink(link, name, sizeof name - 1) > 0 && strstr(name, wanted) != NULL;
}

static void hold(int descriptor) {
    while (is_held(descriptor)) usleep(10000);
}

int fsync(int descriptor) {
    hold(descriptor);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

int fdatasync(int descriptor) {
    hold(descriptor);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
