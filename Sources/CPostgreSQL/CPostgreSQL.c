#include "CPostgreSQL.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

// The compiler compares each pointer with the declaration of libpq-fe.h.
#define FUNCTIONS(F)                                                                                                                 \
    F(PQconnectStartParams)                                                                                                          \
    F(PQconnectPoll)                                                                                                                 \
    F(PQfinish)                                                                                                                      \
    F(PQstatus)                                                                                                                      \
    F(PQerrorMessage)                                                                                                                \
    F(PQsocket)                                                                                                                      \
    F(PQserverVersion)                                                                                                               \
    F(PQbackendPID)                                                                                                                  \
    F(PQsetNoticeReceiver)                                                                                                           \
    F(PQsetnonblocking)                                                                                                              \
    F(PQsendQueryParams)                                                                                                             \
    F(PQflush)                                                                                                                       \
    F(PQconsumeInput)                                                                                                                \
    F(PQisBusy)                                                                                                                      \
    F(PQgetResult)                                                                                                                   \
    F(PQnotifies)                                                                                                                    \
    F(PQfreemem)                                                                                                                     \
    F(PQresultStatus)                                                                                                                \
    F(PQresultErrorField)                                                                                                            \
    F(PQclear)                                                                                                                       \
    F(PQntuples)                                                                                                                     \
    F(PQnfields)                                                                                                                     \
    F(PQftype)                                                                                                                       \
    F(PQgetisnull)                                                                                                                   \
    F(PQgetlength)                                                                                                                   \
    F(PQgetvalue)                                                                                                                    \
    F(PQgetCancel)                                                                                                                   \
    F(PQcancel)                                                                                                                      \
    F(PQfreeCancel)

#define DECLARE(name) static __typeof__(&name) p##name;
FUNCTIONS(DECLARE)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[512];

static void load(void) {
#ifdef __APPLE__
    static const char *const names[] = {"libpq.5.dylib", "/opt/homebrew/opt/libpq/lib/libpq.5.dylib", NULL};
#else
    static const char *const names[] = {"libpq.so.5", NULL};
#endif
    void *library = NULL;
    for (int index = 0; names[index] && !library; index++) library = dlopen(names[index], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        snprintf(failure, sizeof failure, "%s", reason ? reason : "libpq is not there");
        return;
    }
#define RESOLVE(name)                                                                                                                \
    p##name = (__typeof__(&name))dlsym(library, #name);                                                                              \
    if (!p##name) {                                                                                                                  \
        snprintf(failure, sizeof failure, "this libpq has no function %s", #name);                                                   \
        return;                                                                                                                      \
    }
    FUNCTIONS(RESOLVE)
}

const char *pq_load(void) {
    pthread_once(&once, load);
    return failure[0] ? failure : NULL;
}

PGconn *pq_connectStartParams(const char *const *keywords, const char *const *values) {
    return pPQconnectStartParams(keywords, values, 0);
}
PostgresPollingStatusType pq_connectPoll(PGconn *connection) { return pPQconnectPoll(connection); }
void pq_finish(PGconn *connection) { pPQfinish(connection); }
ConnStatusType pq_status(const PGconn *connection) { return pPQstatus(connection); }
const char *pq_errorMessage(const PGconn *connection) { return pPQerrorMessage(connection); }
int pq_socket(const PGconn *connection) { return pPQsocket(connection); }
int pq_serverVersion(const PGconn *connection) { return pPQserverVersion(connection); }
int pq_backendPID(const PGconn *connection) { return pPQbackendPID(connection); }
static void drop(void *context, const PGresult *result) {
    (void)context;
    (void)result;
}
void pq_dropNotices(PGconn *connection) { pPQsetNoticeReceiver(connection, drop, NULL); }
int pq_setnonblocking(PGconn *connection) { return pPQsetnonblocking(connection, 1); }
int pq_sendQueryParams(PGconn *connection, const char *statement, int count, const char *const *values, const int *lengths,
                       const int *formats) {
    return pPQsendQueryParams(connection, statement, count, NULL, values, lengths, formats, 1);
}
int pq_flush(PGconn *connection) { return pPQflush(connection); }
int pq_consumeInput(PGconn *connection) { return pPQconsumeInput(connection); }
int pq_isBusy(PGconn *connection) { return pPQisBusy(connection); }
PGresult *pq_getResult(PGconn *connection) { return pPQgetResult(connection); }
PGnotify *pq_notifies(PGconn *connection) { return pPQnotifies(connection); }
void pq_freemem(void *memory) { pPQfreemem(memory); }
ExecStatusType pq_resultStatus(const PGresult *result) { return pPQresultStatus(result); }
const char *pq_resultErrorField(const PGresult *result, int field) { return pPQresultErrorField(result, field); }
void pq_clear(PGresult *result) { pPQclear(result); }
int pq_ntuples(const PGresult *result) { return pPQntuples(result); }
int pq_nfields(const PGresult *result) { return pPQnfields(result); }
Oid pq_ftype(const PGresult *result, int column) { return pPQftype(result, column); }
int pq_getisnull(const PGresult *result, int row, int column) { return pPQgetisnull(result, row, column); }
int pq_getlength(const PGresult *result, int row, int column) { return pPQgetlength(result, row, column); }
const char *pq_getvalue(const PGresult *result, int row, int column) { return pPQgetvalue(result, row, column); }
PGcancel *pq_getCancel(PGconn *connection) { return pPQgetCancel(connection); }
void pq_cancel(PGcancel *cancel) {
    char reason[256];
    pPQcancel(cancel, reason, sizeof reason);
}
void pq_freeCancel(PGcancel *cancel) { pPQfreeCancel(cancel); }
