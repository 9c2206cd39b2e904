#ifndef ALLOCATION_COUNT_H
#define ALLOCATION_COUNT_H

// How often this process has asked for memory so far, on all threads.
long allocation_count(void);

#endif
