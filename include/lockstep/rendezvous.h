// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Where the threads and loops of one call leave what went wrong, so that its
// first real cause is what is told.
//
// Threads: any number of threads may record and look at the same time.
#ifndef LOCKSTEP_RENDEZVOUS_H_
#define LOCKSTEP_RENDEZVOUS_H_

#include "lockstep/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_rendezvous ls_rendezvous;

// Waits for so many sources.
LS_API LS_MUST_USE ls_status ls_rendezvous_create(size_t num_sources,
                                                  ls_rendezvous **out);
LS_API void ls_rendezvous_destroy(ls_rendezvous *rendezvous);  // NULL is fine.

// Keeps what went wrong with a source, in place of what it said before.
// `status` is taken over. What a session recovers from, ABORTED and
// UNAVAILABLE, is not kept. With a session, lent until it is forgotten or the
// rendezvous destroyed: once, it is closed 5 seconds later, so that who runs it
// does not wait for ever; not for a number that was found not to be finite,
// which ends the run by itself.
LS_API void ls_rendezvous_record(ls_rendezvous *rendezvous, const char *source,
                                 ls_status status, ls_session *session);
// The session goes: it is not closed any more. Another one may be.
LS_API void ls_rendezvous_forget(ls_rendezvous *rendezvous,
                                 ls_session *session);
// The source has ended; what it has recorded stays.
LS_API void ls_rendezvous_record_done(ls_rendezvous *rendezvous,
                                      const char *source);

// The first that was kept and is not CANCELLED, else the first CANCELLED, else
// OK; waits until all sources have said something, at most so long by the
// runtime's clock. The caller's.
LS_API LS_MUST_USE ls_status ls_rendezvous_status(ls_rendezvous *rendezvous,
                                                  double seconds);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RENDEZVOUS_H_
