#pragma once

// Debian and macOS have the header in different folders. Only its types are used here: nothing links libpq.
#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#include <postgresql/libpq-fe.h>
#endif

/// Loads libpq once for the process (docs/internals/adr/0044). Any thread may call it.
///
/// Returns NULL on success, otherwise why it could not be loaded. The text lives as long as the program.
const char *_Nullable pq_load(void);

// The functions of libpq that the gateway calls, by their names there. Call none before pq_load() has succeeded.
PGconn *_Nullable pq_connectStartParams(const char *const _Nullable *_Nonnull keywords,
                                        const char *const _Nullable *_Nonnull values);
PostgresPollingStatusType pq_connectPoll(PGconn *_Nonnull connection);
void pq_finish(PGconn *_Nonnull connection);
ConnStatusType pq_status(const PGconn *_Nonnull connection);
const char *_Nonnull pq_errorMessage(const PGconn *_Nonnull connection);
int pq_socket(const PGconn *_Nonnull connection);
int pq_serverVersion(const PGconn *_Nonnull connection);
int pq_backendPID(const PGconn *_Nonnull connection);
/// Prevents libpq from printing notices to standard error.
void pq_dropNotices(PGconn *_Nonnull connection);
int pq_setnonblocking(PGconn *_Nonnull connection);
/// `formats` are 0 for text and 1 for bytes. The result is in binary format.
int pq_sendQueryParams(PGconn *_Nonnull connection, const char *_Nonnull statement, int count,
                       const char *const _Nullable *_Nonnull values, const int *_Nonnull lengths,
                       const int *_Nonnull formats);
int pq_flush(PGconn *_Nonnull connection);
int pq_consumeInput(PGconn *_Nonnull connection);
int pq_isBusy(PGconn *_Nonnull connection);
PGresult *_Nullable pq_getResult(PGconn *_Nonnull connection);
PGnotify *_Nullable pq_notifies(PGconn *_Nonnull connection);
void pq_freemem(void *_Nonnull memory);
ExecStatusType pq_resultStatus(const PGresult *_Nonnull result);
const char *_Nullable pq_resultErrorField(const PGresult *_Nonnull result, int field);
void pq_clear(PGresult *_Nonnull result);
int pq_ntuples(const PGresult *_Nonnull result);
int pq_nfields(const PGresult *_Nonnull result);
Oid pq_ftype(const PGresult *_Nonnull result, int column);
int pq_getisnull(const PGresult *_Nonnull result, int row, int column);
int pq_getlength(const PGresult *_Nonnull result, int row, int column);
const char *_Nonnull pq_getvalue(const PGresult *_Nonnull result, int row, int column);
PGcancel *_Nullable pq_getCancel(PGconn *_Nonnull connection);
/// Blocks until the server has taken the request.
void pq_cancel(PGcancel *_Nonnull cancel);
void pq_freeCancel(PGcancel *_Nonnull cancel);
