#ifndef SLUICE_COMMON_STATUS_MACROS_H_
#define SLUICE_COMMON_STATUS_MACROS_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Shaped like upstream Abseil's, which the installed release lacks.

// Returns from the enclosing function when `expr` is not OK.
#define SLUICE_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    absl::Status sluice_status_ = (expr);            \
    if (!sluice_status_.ok()) return sluice_status_; \
  } while (false)

// SLUICE_ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F()'s status.
#define SLUICE_ASSIGN_OR_RETURN(lhs, expr) \
  SLUICE_ASSIGN_OR_RETURN_(SLUICE_CONCAT_(sluice_or_, __LINE__), lhs, expr)
#define SLUICE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)
#define SLUICE_CONCAT_(a, b) SLUICE_CONCAT_INNER_(a, b)
#define SLUICE_CONCAT_INNER_(a, b) a##b

// Aborts with the place and the expression. Only for our own bugs: never for
// what a peer, a file, a job or a network can cause.
#define SLUICE_CHECK(condition)                                           \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__,         \
                   __LINE__, #condition);                                 \
      std::abort();                                                       \
    }                                                                     \
  } while (false)

#endif  // SLUICE_COMMON_STATUS_MACROS_H_
