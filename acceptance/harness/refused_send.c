// Loaded into the program: as often as the file REFUSED_SEND comes to be, refuses the next POST that is written to a
// socket, as the system does once the other end has reset the connection.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool refuses(int descriptor, const void *bytes, size_t count) {
    const char *file = getenv("REFUSED_SEND");
    if (!file || count < 5 || memcmp(bytes, "POST ", 5) != 0 || unlink(file) != 0) return false;
    // What follows fails, too.
    shutdown(descriptor, SHUT_WR);
    errno = ECONNRESET;
    return true;
}

ssize_t send(int descriptor, const void *bytes, size_t count, int flags) {
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    return refuses(descriptor, bytes, count) ? -1 : next(descriptor, bytes, count, flags);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
    ssize_t (*next)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");
    const struct iovec *first = message->msg_iov;
    return message->msg_iovlen > 0 && refuses(descriptor, first->iov_base, first->iov_len) ? -1 : next(descriptor, message, flags);
}
