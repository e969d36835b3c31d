#ifndef SLUICE_KERNELS_CPU_ONEDNN_H_
#define SLUICE_KERNELS_CPU_ONEDNN_H_

#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice::kernels {

// Where oneDNN computes, and with how many threads.
//
// Not thread-safe: call from the compute thread.
struct OneDnnContext {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;
  // What primitives work in, one after the other: as much as the one that
  // needs most.
  mutable dnnl::memory scratch{};
};

// Whether the process's ceiling allows AVX-512 and the machine has it.
// REQUIRES: the ceiling is set (LimitInstructions): once asked, oneDNN takes
// none.
inline bool ComputesWithAvx512() {
  return dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core;
}

inline dnnl::memory::desc FloatDesc(const dnnl::memory::dims& dims,
                                    dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

// A memory object over nothing yet.
inline dnnl::memory Wrap(const dnnl::memory::desc& desc,
                         const OneDnnContext& context) {
  return dnnl::memory(desc, context.engine, nullptr);
}

// Attributes of a primitive whose scratch memory comes with each execution.
inline dnnl::primitive_attr ScratchOutside() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A primitive that works in the context's scratch memory. Left to itself oneDNN
// keeps some primitives' scratch with the thread that makes them, and where
// another one runs them there is none.
//
// Not thread-safe: call from the compute thread.
template <typename P>
class Primitive {
 public:
  // `plan` has the attributes ScratchOutside().
  explicit Primitive(const typename P::primitive_desc& plan)
      : primitive_(plan), scratch_(plan.scratchpad_desc()) {}

  void Execute(const OneDnnContext& context,
               std::unordered_map<int, dnnl::memory> arguments) {
    const auto bytes = static_cast<dnnl::memory::dim>(scratch_.get_size());
    if (bytes > 0) {
      arguments[DNNL_ARG_SCRATCHPAD] =
          dnnl::memory(scratch_, context.engine, Scratch(context, bytes));
    }
    primitive_.execute(const_cast<dnnl::stream&>(context.stream), arguments);
  }

 private:
  static void* Scratch(const OneDnnContext& context, dnnl::memory::dim bytes) {
    if (!context.scratch || context.scratch.get_desc().dims()[0] < bytes) {
      context.scratch = dnnl::memory();  // Two at a time are not needed.
      context.scratch = dnnl::memory(
          {{bytes}, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a},
          context.engine);
    }
    return context.scratch.get_data_handle();
  }

  P primitive_;
  dnnl::memory::desc scratch_;
};

// Runs `f`; what oneDNN throws becomes a status of `code` that begins with
// `what`, and where memory is short kResourceExhausted.
template <typename F>
absl::Status CatchOneDnn(absl::StatusCode code, absl::string_view what, F f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::Status(code, absl::StrCat(what, ": oneDNN: ", error.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": no memory to work in"));
  }
}

// An array as a primitive wants it: the caller's own when the formats agree,
// else a copy in 64-byte aligned memory that a reorder fills or empties. It
// holds one array at a time: In and the primitive, or Out, the primitive, Done.
//
// Not thread-safe: call from the compute thread.
class Operand {
 public:
  Operand(const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted,
          const OneDnnContext& context)
      : plain_(Wrap(plain, context)), copied_(plain != wanted) {
    if (!copied_) return;
    wanted_ = dnnl::memory(wanted, context.engine);
    to_wanted_ = dnnl::reorder(plain_, wanted_);
    to_plain_ = dnnl::reorder(wanted_, plain_);
  }

  // The memory to give the primitive, holding the caller's `data`.
  dnnl::memory& In(const void* data, const OneDnnContext& context) {
    plain_.set_data_handle(const_cast<void*>(data));
    if (!copied_) return plain_;
    to_wanted_.execute(const_cast<dnnl::stream&>(context.stream), plain_,
                       wanted_);
    return wanted_;
  }
  // The memory for the primitive to write; Done brings it to `data`.
  dnnl::memory& Out(void* data) {
    plain_.set_data_handle(data);
    return copied_ ? wanted_ : plain_;
  }
  void Done(const OneDnnContext& context) {
    if (!copied_) return;
    to_plain_.execute(const_cast<dnnl::stream&>(context.stream), wanted_,
                      plain_);
  }

 private:
  dnnl::memory plain_;
  bool copied_;
  dnnl::memory wanted_;
  dnnl::reorder to_wanted_;
  dnnl::reorder to_plain_;
};

// What an operation prepared, by number of samples, for a few of them. Results
// of a short batch are those of an operation prepared for just that size.
//
// Not thread-safe: call from the compute thread.
template <typename Prepared>
class PerSize {
 public:
  // The one for `samples`, made as Prepared(args..., samples) when missing.
  // Good until the next call.
  template <typename... Args>
  Prepared& For(int64_t samples, const Args&... args) {
    auto found = prepared_.find(samples);
    if (found != prepared_.end()) return *found->second;
    // A run has full mini-batches, the last of an epoch, and the same two of
    // the test split; more sizes than that are not worth their memory.
    if (prepared_.size() >= 4) prepared_.clear();
    auto made = std::make_unique<Prepared>(args..., samples);
    return *prepared_.emplace(samples, std::move(made)).first->second;
  }

 private:
  std::map<int64_t, std::unique_ptr<Prepared>> prepared_;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_ONEDNN_H_
