#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <cstring>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "tests/support/stand_in_backend.h"
#include "tests/support/stand_in_capture.h"

// The operations of the stand-in device: CPU operations on its memory.
namespace shoal::testing {
namespace {

using c10::DispatchKey;
using c10::IValue;

at::Tensor on_device(c10::Storage storage, const at::Tensor& like) {
  auto out = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(DispatchKey::PrivateUse1), like.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                   like.storage_offset());
  return out;
}

c10::Storage new_storage(std::size_t size) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), size, device_allocator().allocate(size),
                       &device_allocator(),
                       /*resizable=*/true);
  if (auto* capture = Capture::current()) capture->own(storage);
  return storage;
}

// The device tensors of one call, as CPU tensors.
class HostViews {
 public:
  at::Tensor of(const at::Tensor& t) {
    auto& storage = storages_[t.storage().unsafeGetStorageImpl()];
    if (!storage)
      storage =
          c10::Storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(),
                       at::DataPtr(t.storage().unsafeGetStorageImpl()->mutable_data(), at::kCPU),
                       at::getCPUAllocator(), /*resizable=*/true);
    auto view = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage), c10::DispatchKeySet(DispatchKey::CPU), t.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    views_.emplace_back(t, view);
    return view;
  }

  // The device tensor for a returned or resized output. Sets `copies` if it is new on the device.
  at::Tensor returned(const at::Tensor& here, bool& copies) {
    copies = false;
    for (const auto& [there, view] : views_) {
      if (view.is_same(here)) return there;
      if (view.storage().unsafeGetStorageImpl() == here.storage().unsafeGetStorageImpl())
        return on_device(there.storage(), here);
    }
    copies = true;
    auto storage = new_storage(here.storage().nbytes());
    if (here.storage().nbytes() > 0)
      std::memcpy(storage.mutable_data(), here.storage().data(), here.storage().nbytes());
    return on_device(std::move(storage), here);
  }
  // Resizes given outputs whose size has changed.
  void resize() {
    for (const auto& [there, view] : views_) {
      auto* const impl = there.unsafeGetTensorImpl();
      if (view.storage().data() != there.storage().data()) {
        auto fresh = new_storage(view.storage().nbytes());
        std::memcpy(fresh.mutable_data(), view.storage().data(), view.storage().nbytes());
        impl->set_storage_keep_dtype(std::move(fresh));
      }
      if (there.sizes() != view.sizes() || there.strides() != view.strides())
        impl->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
    }
  }

 private:
  std::unordered_map<c10::StorageImpl*, c10::Storage> storages_;
  std::vector<std::pair<at::Tensor, at::Tensor>> views_;
};

template <class Change>
IValue with_tensors(const IValue& value, const Change& change) {
  if (value.isTensor()) {
    const auto& t = value.toTensor();
    return t.defined() ? IValue(change(t)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& t : value.toTensorList()) all.push_back(change(t));
    return all;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor> t : value.toOptionalTensorList())
      all.push_back(t && t->defined() ? std::optional(change(*t)) : t);
    return all;
  }
  if (value.isDevice()) return c10::Device(at::kCPU);
  return value;
}

void check_permitted(const c10::OperatorHandle& op, const std::vector<IValue>& args) {
  const auto name = op.schema().name();
  bool waits = op.hasTag(at::Tag::data_dependent_output) ||
               op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::cudagraph_unsafe);
  if (name.starts_with("aten::index") && args.size() > 1 && args[1].isOptionalTensorList())
    for (const std::optional<at::Tensor> index : args[1].toOptionalTensorList())
      waits |=
          index && index->defined() && (!is_there(*index) || index->scalar_type() == at::kBool);
  if (!waits) return;
  Capture::refuse(name + " waits for the device");
  finish_copies();
}

at::Tensor number_of_host(const c10::OperatorHandle& op, const at::Tensor& t) {
  if (t.dim() > 0 && !op.schema().name().starts_with("aten::index"))
    throw std::runtime_error(
        fmt::format("{}: found a tensor {} of the host beside tensors of the device",
                    op.schema().name(), t.sizes()));
  return t.clone();  // the value is an argument of the kernel
}

// Makes a replay call the operation again. there: its device tensors, in the order of `given`,
// which are views of them; fresh: new outputs with their indices.
void remember(Capture& capture, const c10::OperatorHandle& op, const torch::jit::Stack& given,
              const std::vector<at::Tensor>& there,
              const std::vector<std::pair<std::size_t, at::Tensor>>& fresh) {
  // Records the current sizes, because a given output may have been resized.
  std::vector<Operand> operands;
  HostViews at_replay;
  for (const auto& t : there) {
    const bool device = is_there(t);
    operands.emplace_back(t, device ? at_replay.of(t) : t.clone());
  }
  std::vector<std::pair<std::size_t, at::Tensor>> results;
  for (const auto& [number, t] : fresh) results.emplace_back(number, HostViews().of(t));
  capture.add([op, given, operands = std::move(operands), results = std::move(results)] {
    const Working replaying;
    std::size_t next = 0;
    torch::jit::Stack again;
    for (const auto& a : given)
      again.push_back(
          with_tensors(a, [&](const at::Tensor&) { return operands[next++].at_replay(); }));
    op.callBoxed(again);
    std::vector<at::Tensor> outputs;
    for (const auto& value : again)
      with_tensors(value, [&](const at::Tensor& t) { return outputs.emplace_back(t); });
    for (const auto& [number, to] : results)
      if (to.storage().nbytes() > 0)
        std::memcpy(to.storage().mutable_data(), outputs[number].storage().data(),
                    to.storage().nbytes());
  });
}

// Calls the CPU implementation of the operation.
void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto args = torch::jit::pop(*stack, schema.arguments().size());
  check_permitted(op, args);
  auto* const capture = Capture::current();
  const Working working;
  HostViews views;
  std::vector<at::Tensor> there;
  torch::jit::Stack here;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    here.push_back(with_tensors(args[i], [&](const at::Tensor& t) {
      there.push_back(t);
      if (!is_there(t)) return number_of_host(op, t);
      if (capture != nullptr && alias != nullptr && alias->isWrite() && t.numel() > 0)
        capture->will_write(t.const_data_ptr());
      return views.of(t);
    }));
  }
  const auto given = here;  // keeps no device memory alive
  op.callBoxed(here);
  views.resize();
  std::vector<std::pair<std::size_t, at::Tensor>> fresh;  // by index of the output
  std::size_t output = 0;
  for (auto& value : here) {
    value = with_tensors(value, [&](const at::Tensor& t) {
      bool copies = false;
      const auto out = views.returned(t, copies);
      if (copies) fresh.emplace_back(output, out);
      ++output;
      return out;
    });
  }
  stack->insert(stack->end(), here.begin(), here.end());
  if (capture != nullptr) remember(*capture, op, given, there, fresh);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  at::Tensor out = at::detail::empty_generic(size, &device_allocator(),
                                             c10::DispatchKeySet(DispatchKey::PrivateUse1),
                                             dtype.value_or(at::kFloat), format);
  if (auto* capture = Capture::current()) capture->own(out.storage());
  return out;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  at::Tensor out = at::detail::empty_strided_generic(size, stride, &device_allocator(),
                                                     c10::DispatchKeySet(DispatchKey::PrivateUse1),
                                                     dtype.value_or(at::kFloat));
  if (auto* capture = Capture::current()) capture->own(out.storage());
  return out;
}

bool is_pinned(const at::Tensor& t) {
  return t.numel() == 0 || memory().is_pinned(t.const_data_ptr(), t.nbytes());
}

// Whether the copy is one contiguous piece, without an intermediate unpinned copy.
bool is_one_piece(const at::Tensor& src, const at::Tensor& dst, const at::Tensor& host) {
  return src.scalar_type() == dst.scalar_type() && src.sizes() == dst.sizes() &&
         host.is_non_overlapping_and_dense();
}

enum class Crossing { kNone, kWaits, kToDevice, kToHost };

void copy(const at::Tensor& src, const at::Tensor& dst, Crossing crossing) {
  const Working working;
  if (crossing == Crossing::kToHost) {
    copy_later_to_host(dst, at::empty_like(dst).copy_(src));
    dst.fill_(dst.scalar_type() == at::kBool ? 1 : 77);  // until the copy has arrived
    return;
  }
  dst.copy_(src);
  if (crossing == Crossing::kToDevice) copied_from_host(src);
}

Crossing crossing_of(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  if (is_there(src) == is_there(dst)) return Crossing::kNone;
  const auto& host = is_there(src) ? dst : src;
  if (!non_blocking) Capture::refuse("a copy that waits");
  if (!is_pinned(host)) Capture::refuse("a copy of host memory that is not pinned");
  if (!is_one_piece(src, dst, host))
    Capture::refuse("a copy of host memory that is not in one piece, or is converted");
  if (!non_blocking || !is_pinned(host)) return Crossing::kWaits;
  return is_there(dst) ? Crossing::kToDevice : Crossing::kToHost;
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  const auto crossing = crossing_of(src, dst, non_blocking);
  if (crossing == Crossing::kWaits) finish_copies();
  auto* const capture = Capture::current();
  if (capture == nullptr) {
    const auto view = [](const at::Tensor& t) {
      return is_there(t) ? HostViews().of(t) : t.detach();
    };
    copy(view(src), view(dst), crossing);
    return dst;
  }
  const Operand from(src, HostViews().of(src)), to(dst, HostViews().of(dst));
  if (is_there(dst) && dst.numel() > 0) {
    capture->will_write(dst.const_data_ptr());
    const Working working;
    to.now().copy_(from.now());
  }
  capture->add([=] { copy(from.at_replay(), to.at_replay(), crossing); });
  return dst;
}

// A module's parameters move to the device in place.
bool may_become(const at::Tensor&, const at::Tensor&) { return true; }

// On other devices than the CPU, both cells call a fused kernel, which the CPU does not have.
at::Tensor gru_cell(const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& w_input,
                    const at::Tensor& w_hidden, const std::optional<at::Tensor>& b_input,
                    const std::optional<at::Tensor>& b_hidden) {
  const auto x = at::linear(input, w_input, b_input).chunk(3, 1);
  const auto h = at::linear(hidden, w_hidden, b_hidden).chunk(3, 1);
  const auto reset = at::sigmoid(x[0] + h[0]), keep = at::sigmoid(x[1] + h[1]);
  const auto fresh = at::tanh(x[2] + reset * h[2]);
  return (hidden - fresh) * keep + fresh;
}

std::tuple<at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input, at::TensorList hidden,
                                             const at::Tensor& w_input, const at::Tensor& w_hidden,
                                             const std::optional<at::Tensor>& b_input,
                                             const std::optional<at::Tensor>& b_hidden) {
  const auto gates =
      (at::linear(input, w_input, b_input) + at::linear(hidden[0], w_hidden, b_hidden)).chunk(4, 1);
  const auto cell = at::sigmoid(gates[1]) * hidden[1] + at::sigmoid(gates[0]) * at::tanh(gates[2]);
  return {at::sigmoid(gates[3]) * at::tanh(cell), cell};
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("gru_cell", gru_cell);
  m.impl("lstm_cell", lstm_cell);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("_copy_from", copy_from);
  m.impl("_has_compatible_shallow_copy_type", may_become);
  for (const auto* name : {"convolution", "convolution_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run>());
}

// Reports operations that a graph would not repeat: all except views and copies to the device.
std::unique_ptr<at::ObserverContext> look_at(const at::RecordFunction& function) {
  auto* const capture = Capture::current();
  if (capture == nullptr || Working::now()) return nullptr;
  const auto name = function.operator_name();
  if (!name || name->name == "aten::_to_copy") return nullptr;
  const auto op = c10::Dispatcher::singleton().findSchema(*name);
  if (!op) return nullptr;
  bool computes = !op->schema().returns().empty();
  for (const auto& r : op->schema().returns()) {
    const auto* alias = r.alias_info();
    if (!r.type()->isSubtypeOf(*c10::TensorType::get()) || (alias != nullptr && !alias->isWrite()))
      computes = false;
  }
  bool of_host = false, of_device = false;
  for (const auto& value : function.inputs()) {
    with_tensors(value, [&](const at::Tensor& t) {
      (is_there(t) ? of_device : of_host) = true;
      return t;
    });
  }
  if (computes && of_host && !of_device)
    capture->fault(name->name + " on tensors of the host, which a graph does not repeat");
  return nullptr;
}

}  // namespace

void watch_host_operations() {
  at::addGlobalCallback(
      at::RecordFunctionCallback(look_at).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

}  // namespace shoal::testing
