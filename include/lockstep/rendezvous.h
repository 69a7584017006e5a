// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Rendezvous of the threads and loops of one call: collects their failures so
// that the root cause is reported.
//
// Threads: any number of threads may record and read at the same time.
#ifndef LOCKSTEP_RENDEZVOUS_H_
#define LOCKSTEP_RENDEZVOUS_H_

#include "lockstep/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_rendezvous ls_rendezvous;

// Creates a rendezvous of this many sources; the caller destroys it.
LS_API LS_MUST_USE ls_status ls_rendezvous_create(size_t num_sources,
                                                  ls_rendezvous **out);
LS_API void ls_rendezvous_destroy(ls_rendezvous *rendezvous);  // NULL is fine.

// Records a failure of a source, replacing its earlier one. `status` is taken
// over. Failures that a session recovers from, ABORTED and UNAVAILABLE, are
// ignored. A session, if given, is lent until it is forgotten or the rendezvous
// destroyed: it is closed once, 5 seconds later, so that its runs do not wait
// for ever; not after a check for non-finite numbers failed, which ends the run
// by itself.
LS_API void ls_rendezvous_record(ls_rendezvous *rendezvous, const char *source,
                                 ls_status status, ls_session *session);
// Forgets the session, which is then no longer closed. Another one may be.
LS_API void ls_rendezvous_forget(ls_rendezvous *rendezvous,
                                 ls_session *session);
// Records that the source has ended; its failure stays.
LS_API void ls_rendezvous_record_done(ls_rendezvous *rendezvous,
                                      const char *source);

// Returns the first failure recorded that is not CANCELLED, else the first
// CANCELLED, else OK; waits until all sources have recorded a failure or their
// end, at most `seconds` of the runtime's clock. The caller owns the status.
LS_API LS_MUST_USE ls_status ls_rendezvous_status(ls_rendezvous *rendezvous,
                                                  double seconds);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RENDEZVOUS_H_
