#ifndef SLUICE_SIM_THEORY_THEORY_H_
#define SLUICE_SIM_THEORY_THEORY_H_

#include "proto/job.pb.h"

namespace sluice {

// Long-run seconds per update where a formula is known: P workers whose tasks
// take independent times, and no network. `low` equals `high` if the formula is
// exact.
struct UpdateTime {
  double low = 0;
  double high = 0;
};

// For compute times d + X, where X is exponential with mean m. H_n is the n-th
// harmonic number (Dutta et al. 2018 for d = 0):
//
//   SYNC           d + m H_P
//   K_SYNC         d + m (H_P - H_{P-K}), the K-th of P order statistics
//   K_BATCH_SYNC   integral over t of P(P fresh renewal processes have made
//                  fewer than K renewals by t); K m / P for d = 0; for
//                  K > 512 between K (d+m) / P and K (d+m) / P + d (P-1) / P
//   K_ASYNC        m (H_P - H_{P-K}) for d = 0, as ASYNC for K = 1, as SYNC
//                  for K = P; else between K (d+m) / P and
//                  d + m (H_P - H_{P-K})
//   ASYNC          (d+m) / P
//   K_BATCH_ASYNC  K (d+m) / P
//
// With m = 0 these are the constant times below.
//
// REQUIRES: 1 <= k; k <= workers under K_SYNC and K_ASYNC.
UpdateTime ShiftedExponentialUpdateTime(proto::Policy policy, int workers,
                                        int k, double shift, double mean);

// For compute times that are always c, averaged over whole rounds:
//
//   SYNC, K_SYNC   c                 K_ASYNC        c / floor(P/K)
//   K_BATCH_SYNC   c ceil(K/P)       ASYNC          c / P
//                                    K_BATCH_ASYNC  c K / P
double ConstantUpdateTime(proto::Policy policy, int workers, int k,
                          double seconds);

// Long-run mean staleness for any distribution of compute times. The staleness
// of a gradient is the number of updates made while it was computed: of the
// P-1 other workers each delivers one meanwhile, and K make an update.
//
//   ASYNC  P-1   K_BATCH_ASYNC  (P-1)/K   SYNC, K_SYNC, K_BATCH_SYNC  0
//   K_ASYNC  (P-K)/K: the K of the last update start together
double ExpectedStaleness(proto::Policy policy, int workers, int k);

}  // namespace sluice

#endif  // SLUICE_SIM_THEORY_THEORY_H_
