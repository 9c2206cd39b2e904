// Loaded into the program: as often as the file REFUSED_SEND comes to be, refuses the next POST that is written to a
// socket, as the system does once the other end has reset the connection. If the file is not empty, something has come by then.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuses(int descriptor, const void *bytes, size_t count) {
    const char *file = getenv("REFUSED_SEND");
    struct stat status;
    if (!file || count < 5 || memcmp(bytes, "POST ", 5) != 0 || stat(file, &status) != 0 || unlink(file) != 0) return false;
    struct pollfd input = {.fd = descriptor, .events = POLLIN};
    if (status.st_size > 0) poll(&input, 1, 5000);
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
