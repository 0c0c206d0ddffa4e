#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/benchmarks.h"
#include "benchmarks/by_turns.h"
#include "benchmarks/cpu_peak.h"
#include "shoal/core/error.h"
#include "src/models/amx_convolution.h"
#include "src/models/panel_bf16.h"
#include "src/models/winograd.h"

namespace shoal::cli {
namespace {

struct ConvolutionFlags {
  std::int64_t batch = 256;
  std::string precision = "float32";
  int threads = 1, runs = 5;
  bool is_bf16() const { return precision == "bf16"; }
};

// A convolution with ReLU, forward and backward.
class TrainedLayer {
 public:
  TrainedLayer(const ConvolutionFlags& flags, std::int64_t channels, std::int64_t side,
               std::int64_t filters, std::int64_t size, std::int64_t stride, bool pixels)
      : stride_(stride),
        dtype_(flags.is_bf16() ? at::kBFloat16 : at::kFloat),
        x_(at::rand({flags.batch, channels, side, side}, dtype_)
               .contiguous(at::MemoryFormat::ChannelsLast)),
        weight_(at::randn({filters, channels, size, size}).requires_grad_()),
        bias_(at::randn({filters}).requires_grad_()) {
    x_.set_requires_grad(!pixels);
    gradient_ = at::randn_like(by_library());
    operations_ =
        static_cast<double>(gradient_.numel() * channels * size * size) * 2 * (pixels ? 2 : 3);
    if (pixels) bytes_ = (x_ * 255).to(at::kByte);
  }

  // Operations per second, as if every filter were applied at every place.
  double measure_library() { return measure(&TrainedLayer::by_library); }
  double measure_own() { return measure(&TrainedLayer::by_own); }

 private:
  at::Tensor by_library() const {
    return at::conv2d(x_, weight_.to(dtype_), bias_.to(dtype_), stride_).relu_();
  }
  at::Tensor by_own() const {
    const auto convolution = dtype_ == at::kFloat ? winograd_convolution : amx_convolution;
    return convolution(bytes_.defined() ? bytes_ : x_, weight_, bias_, stride_);
  }

  double measure(at::Tensor (TrainedLayer::*forward)() const) {
    for (const auto* leaf : {&x_, &weight_, &bias_}) leaf->mutable_grad().reset();
    const auto start = std::chrono::steady_clock::now();
    (this->*forward)().backward(gradient_);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    return operations_ / time.count();
  }

  std::int64_t stride_;
  at::ScalarType dtype_;
  at::Tensor x_, bytes_, weight_, bias_, gradient_;
  double operations_ = 0;
};

int bench_convolution(const ConvolutionFlags& flags) {
  at::set_num_threads(flags.threads);
  require(!flags.is_bf16() || panel_amx(),
          "--precision: found bf16, expected float32: this CPU has no AMX");
  const double peak =
      peak_operations(flags.threads, flags.is_bf16() ? Precision::kBf16 : Precision::kFloat32);
  fmt::print("{:<24} {:>9} {:>9} {:>7}   (peak in registers: {:.0f})\n", "billion operations/s",
             "LibTorch", flags.is_bf16() ? "AMX" : "Winograd", "ratio", peak * 1e-9);
  std::vector<std::pair<const char*, TrainedLayer>> layers;
  layers.emplace_back("4x84x84, 32 of 8x8 / 4",
                      TrainedLayer(flags, 4, 84, 32, 8, 4, /*pixels=*/true));
  layers.emplace_back("32x20x20, 64 of 4x4 / 2",
                      TrainedLayer(flags, 32, 20, 64, 4, 2, /*pixels=*/false));
  layers.emplace_back("64x9x9, 64 of 3x3 / 1",
                      TrainedLayer(flags, 64, 9, 64, 3, 1, /*pixels=*/false));
  for (auto& [name, layer] : layers) {
    auto& one = layer;  // clang 14 captures no structured bindings
    const auto measure = [&one](int runs) {
      return by_turns(
          runs, [&one] { return one.measure_library(); }, [&one] { return one.measure_own(); });
    };
    measure(1);  // the first run allocates
    const auto found = measure(flags.runs);
    fmt::print("{:<24} {:>9.0f} {:>9.0f} {:>7.2f}\n", name, found.peer * 1e-9, found.own * 1e-9,
               found.ratio);
  }
  return kSuccess;
}

}  // namespace

void add_bench_convolution(CLI::App& bench, Command& chosen) {
  auto* command = bench.add_subcommand(
      "convolution",
      "Forward and backward through the convolutions of nature-cnn, beside LibTorch by turns");
  const auto flags = std::make_shared<ConvolutionFlags>();
  command->add_option("--batch", flags->batch, "Pictures")->check(CLI::PositiveNumber);
  command->add_option("--precision", flags->precision, "Precision: float32 or bf16")
      ->check(CLI::IsMember({"float32", "bf16"}));
  command->add_option("--threads", flags->threads, "Threads")->check(CLI::PositiveNumber);
  command->add_option("--runs", flags->runs, "Runs of each")->check(CLI::PositiveNumber);
  command->callback(
      [flags, &chosen] { chosen = [flags](char**) { return bench_convolution(*flags); }; });
}

}  // namespace shoal::cli
