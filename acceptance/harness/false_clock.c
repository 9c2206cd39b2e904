// The wall clock of a process, and on request its monotonic one, as a test wants them: see clock.py. Preloaded. FALSE_CLOCK names
// a file with the offset in nanoseconds and the rate, which the test changes while the process runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct setting {
    _Atomic int64_t offset;
    // In thousandths: 1,000 is the pace of the real clock.
    _Atomic int64_t rate;
};

static const struct setting *setting;
static int is_monotonic_false;
// When the process began, by the real clocks: a rate counts from there.
static int64_t began[2];

static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_timerfd)(int, int, const struct itimerspec *, struct itimerspec *);
static int (*real_sem)(sem_t *, const struct timespec *);
static int (*real_condition)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static int64_t count(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }
static struct timespec spec(int64_t count) {
    if (count < 0) count = 0;
    return (struct timespec){.tv_sec = count / 1000000000, .tv_nsec = count % 1000000000};
}

__attribute__((constructor)) static void load(void) {
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_timerfd = dlsym(RTLD_NEXT, "timerfd_settime");
    real_sem = dlsym(RTLD_NEXT, "sem_timedwait");
    real_condition = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    const char *path = getenv("FALSE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return;
    struct timespec now;
    for (int clock = 0; clock < 2; clock++) {
        real_gettime(clock, &now);
        began[clock] = count(now);
    }
    is_monotonic_false = getenv("FALSE_CLOCK_MONOTONIC") != NULL;
    setting = memory;
}

static int is_false(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return setting != NULL;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME: return setting != NULL && is_monotonic_false;
    default: return 0;
    }
}

// How far the false clock is ahead of the real one. All monotonic clocks began, as far as a test can tell, together.
static int64_t ahead(clockid_t clock, int64_t real) {
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int64_t passed = real - began[is_wall ? 0 : 1];
    return setting->offset + passed / 1000 * (setting->rate - 1000);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    // Before this library's turn, another one may ask.
    if (!real_gettime) real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_gettime(clock, time);
    if (result == 0 && is_false(clock)) *time = spec(count(*time) + ahead(clock, count(*time)));
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

// The kernel knows the real time alone, so a moment of the false clock is one of the real clock to it.
static struct timespec moment(clockid_t clock, struct timespec time) {
    struct timespec now;
    if (!is_false(clock) || real_gettime(clock, &now) != 0) return time;
    return spec(count(time) - ahead(clock, count(now)));
}

int timerfd_settime(int file, int flags, const struct itimerspec *new, struct itimerspec *old) {
    struct itimerspec real = *new;
    // Every moment of a wall clock is later than any since the machine was started.
    clockid_t clock = real.it_value.tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int is_set = real.it_value.tv_sec != 0 || real.it_value.tv_nsec != 0;
    if (flags & TFD_TIMER_ABSTIME && is_set) {
        real.it_value = moment(clock, real.it_value);
        // Zero would stop the timer.
        if (count(real.it_value) == 0) real.it_value.tv_nsec = 1;
    }
    return real_timerfd(file, flags, &real, old);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec real = moment(CLOCK_REALTIME, *until);
    return real_sem(semaphore, &real);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    clockid_t clock = until->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec real = moment(clock, *until);
    return real_condition(condition, mutex, &real);
}
