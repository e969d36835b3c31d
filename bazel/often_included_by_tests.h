#ifndef SLUICE_BAZEL_OFTEN_INCLUDED_BY_TESTS_H_
#define SLUICE_BAZEL_OFTEN_INCLUDED_BY_TESTS_H_

// The same for tests and what only they use.
#include "bazel/often_included.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#endif  // SLUICE_BAZEL_OFTEN_INCLUDED_BY_TESTS_H_
