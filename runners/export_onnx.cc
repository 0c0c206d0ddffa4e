#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/promote_types.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runners/export_formats.h"
#include "runners/onnx_model.h"
#include "runners/policy_trace.h"
#include "shoal/core/error.h"
#include "shoal/runners/version.h"

namespace shoal {
namespace {

using torch::jit::Node;
using torch::jit::Value;
using Names = std::vector<std::string>;

// Translates the operations of a traced graph one by one. Every value is a tensor of which dtype
// and number of axes are known from the trace.
class Translation {
 public:
  Translation(OnnxModel& to, const torch::jit::Module& module) : to_(to), module_(module) {}

  void name(const Value* value, const std::string& name) { names_[value] = name; }
  std::string of(const Value* value);
  void translate(const Node& node);

 private:
  using Handler = std::function<void(Translation&, const Node&)>;
  static const std::map<std::string, Handler>& handlers();

  void unary(const Node& n, const std::string& op) { set(n, to_.add(op, {x(n)})); }
  void arithmetic(const Node& n, const std::string& op);
  void comparison(const Node& n, const std::string& op);
  void logic(const Node& n, const std::string& op) { set(n, to_.add(op, {x(n, 0), x(n, 1)})); }
  void clip(const Node& n, const at::IValue& low, const at::IValue& high);
  void linear(const Node& n);
  void convolution(const Node& n);
  void pool(const Node& n);
  void permute(const Node& n, std::vector<std::int64_t> order);
  void reduce(const Node& n, const std::string& op);
  void extreme(const Node& n, const std::string& op, const std::string& place);
  void layer_norm(const Node& n);
  void unbind(const Node& unpack);

  // Names, and values that must be constants.
  std::string x(const Node& n, std::size_t i = 0) { return of(n.input(i)); }
  at::IValue constant(const Node& n, std::size_t i) const;
  std::int64_t integer(const Node& n, std::size_t i) const { return constant(n, i).toInt(); }
  std::vector<std::int64_t> integers(const Node& n, std::size_t i) const;
  // For height and width; a single number is for both.
  std::vector<std::int64_t> sides(const Node& n, std::size_t i) const;
  std::vector<const Value*> list(const Node& n, std::size_t i) const;
  static at::ScalarType type(const Value* value);
  static std::int64_t axes(const Value* value);
  static std::int64_t axis(const Value* value, std::int64_t i) {
    return i < 0 ? i + axes(value) : i;
  }
  static std::int64_t size(const Value* value, std::int64_t i);

  std::string number(double value, at::ScalarType type) {
    return to_.constant(at::full({}, value, at::TensorOptions(type)));
  }
  std::string cast(const std::string& x, at::ScalarType type) {
    return to_.add("Cast", {x}, {{"to", OnnxModel::type_of(type)}});
  }
  std::string as(const Value* value, at::ScalarType wanted);  // also of a constant number
  std::string reshape(const std::string& x, const std::vector<std::int64_t>& shape) {
    return to_.add("Reshape", {x, to_.integers(shape)});
  }
  std::string slice(const std::string& x, std::int64_t axis, std::int64_t from, std::int64_t to) {
    return to_.add("Slice", {x, to_.integers({from}), to_.integers({to}), to_.integers({axis})});
  }
  std::string gemm(const std::string& x, const std::string& weight, const std::string& bias) {
    return to_.add("Gemm", {x, weight, bias}, {{"transB", std::int64_t{1}}});
  }
  void set(const Node& n, const std::string& name, std::size_t i = 0) {
    names_[n.output(i)] = name;
  }

  OnnxModel& to_;
  const torch::jit::Module& module_;
  std::unordered_map<const Value*, std::string> names_;
};

[[noreturn]] void refuse_operation(const Node& n) {
  throw Error(
      "the policy cannot be exported as ONNX: its model has the operation {}, which this export "
      "does not know; export it as TorchScript",
      n.kind().toQualString());
}

bool constant_none(const Value* value) {
  const auto known = torch::jit::toIValue(value);
  return known && known->isNone();
}

at::ScalarType Translation::type(const Value* value) {
  const auto tensor = value->type()->cast<c10::TensorType>();
  if (!tensor || !tensor->scalarType()) refuse_operation(*value->node());
  return *tensor->scalarType();
}

std::int64_t Translation::axes(const Value* value) {
  const auto tensor = value->type()->cast<c10::TensorType>();
  if (!tensor || !tensor->dim()) refuse_operation(*value->node());
  return static_cast<std::int64_t>(*tensor->dim());
}

std::int64_t Translation::size(const Value* value, std::int64_t i) {
  const auto found = value->type()->expect<c10::TensorType>()->sizes()[static_cast<std::size_t>(i)];
  if (!found) refuse_operation(*value->node());
  return *found;
}

at::IValue Translation::constant(const Node& n, std::size_t i) const {
  const auto value = torch::jit::toIValue(n.input(i));
  if (!value) refuse_operation(n);
  return *value;
}

std::vector<std::int64_t> Translation::integers(const Node& n, std::size_t i) const {
  if (const auto value = torch::jit::toIValue(n.input(i))) return value->toIntVector();
  std::vector<std::int64_t> all;
  for (const auto* element : list(n, i)) {
    const auto value = torch::jit::toIValue(element);
    if (!value) refuse_operation(n);
    all.push_back(value->toInt());
  }
  return all;
}

std::vector<const Value*> Translation::list(const Node& n, std::size_t i) const {
  const auto* made = n.input(i)->node();
  if (made->kind() != c10::prim::ListConstruct) refuse_operation(n);
  return {made->inputs().begin(), made->inputs().end()};
}

std::string Translation::of(const Value* value) {
  if (const auto found = names_.find(value); found != names_.end()) return found->second;
  const auto* node = value->node();
  if (node->kind() == c10::prim::GetAttr) {
    const auto& name = node->s(c10::attr::name);
    return names_[value] = to_.constant(module_.attr(name).toTensor(), "weight/" + name);
  }
  const auto known = torch::jit::toIValue(value);
  if (!known || !known->isTensor()) refuse_operation(*node);
  return names_[value] = to_.constant(known->toTensor());
}

std::string Translation::as(const Value* value, at::ScalarType wanted) {
  const auto known = torch::jit::toIValue(value);
  if (known && known->isScalar()) return number(known->toScalar().toDouble(), wanted);
  if (known && known->isTensor()) return to_.constant(known->toTensor().to(wanted));
  const auto name = of(value);
  // A trace gives parameters no type.
  const auto* node = value->node();
  const auto found = node->kind() == c10::prim::GetAttr
                         ? module_.attr(node->s(c10::attr::name)).toTensor().scalar_type()
                         : type(value);
  return found == wanted ? name : cast(name, wanted);
}

// add, sub and rsub have a factor of their second operand.
void Translation::arithmetic(const Node& n, const std::string& op) {
  const auto wanted = type(n.output());
  auto a = as(n.input(0), wanted), b = as(n.input(1), wanted);
  const bool has_factor = n.inputs().size() > 2;
  if (has_factor && constant(n, 2).toScalar().toDouble() != 1) refuse_operation(n);
  set(n, n.kind() == c10::aten::rsub ? to_.add(op, {b, a}) : to_.add(op, {a, b}));
}

void Translation::comparison(const Node& n, const std::string& op) {
  const auto* other = n.input(1);
  const auto known = torch::jit::toIValue(other);
  auto wanted = type(n.input(0));
  if (!known || !known->isScalar()) wanted = at::promote_types(wanted, type(other));
  if (wanted == at::kByte || wanted == at::kBool) wanted = at::kInt;  // all operators know it
  set(n, to_.add(op, {as(n.input(0), wanted), as(other, wanted)}));
}

void Translation::clip(const Node& n, const at::IValue& low, const at::IValue& high) {
  const auto wanted = type(n.output());
  const auto bound = [&](const at::IValue& value) {
    return value.isNone() ? std::string() : number(value.toScalar().toDouble(), wanted);
  };
  set(n, to_.add("Clip", {as(n.input(0), wanted), bound(low), bound(high)}));
}

void Translation::linear(const Node& n) {
  const bool has_bias = !constant_none(n.input(2));
  if (axes(n.input(0)) == 2 && has_bias) return set(n, gemm(x(n, 0), x(n, 1), x(n, 2)));
  const std::vector<std::int64_t> turned{1, 0};
  auto y = to_.add("MatMul", {x(n, 0), to_.add("Transpose", {x(n, 1)}, {{"perm", turned}})});
  set(n, has_bias ? to_.add("Add", {y, x(n, 2)}) : y);
}

std::vector<std::int64_t> Translation::sides(const Node& n, std::size_t i) const {
  auto both = integers(n, i);
  if (both.size() == 1) both.push_back(both[0]);
  return both;
}

void Translation::convolution(const Node& n) {
  const auto weight = n.input(1);
  const auto padding = sides(n, 4);
  auto pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  Names inputs{x(n, 0), of(weight)};
  if (!constant_none(n.input(2))) inputs.push_back(x(n, 2));
  const bool general = n.kind() == c10::aten::_convolution;
  if (general && (constant(n, 6).toBool() || axes(n.input(0)) != 4)) refuse_operation(n);
  set(n, to_.add("Conv", inputs,
                 {{"strides", sides(n, 3)},
                  {"pads", pads},
                  {"dilations", sides(n, 5)},
                  {"group", integer(n, general ? 8 : 6)}}));
}

void Translation::pool(const Node& n) {
  const auto padding = sides(n, 3);
  auto pads = padding, strides = sides(n, 2);
  pads.insert(pads.end(), padding.begin(), padding.end());
  if (strides.empty()) strides = sides(n, 1);
  set(n, to_.add("MaxPool", {x(n)},
                 {{"kernel_shape", sides(n, 1)},
                  {"strides", strides},
                  {"pads", pads},
                  {"dilations", sides(n, 4)},
                  {"ceil_mode", std::int64_t{constant(n, 5).toBool()}}}));
}

void Translation::permute(const Node& n, std::vector<std::int64_t> order) {
  for (auto& i : order) i = axis(n.input(0), i);
  set(n, to_.add("Transpose", {x(n)}, {{"perm", order}}));
}

// sum, mean, amax and amin over given axes.
void Translation::reduce(const Node& n, const std::string& op) {
  auto along = integers(n, 1);
  for (auto& i : along) i = axis(n.input(0), i);
  const std::int64_t keep = constant(n, 2).toBool() ? 1 : 0;
  const auto from = as(n.input(0), type(n.output()));
  if (op == "ReduceSum")
    set(n, to_.add(op, {from, to_.integers(along)}, {{"keepdims", keep}}));
  else
    set(n, to_.add(op, {from}, {{"axes", along}, {"keepdims", keep}}));
}

// max and min along an axis, with the place.
void Translation::extreme(const Node& n, const std::string& op, const std::string& place) {
  if (n.outputs().size() != 2) refuse_operation(n);
  const auto along = axis(n.input(0), integer(n, 1));
  const std::int64_t keep = constant(n, 2).toBool() ? 1 : 0;
  set(n, to_.add(op, {x(n)}, {{"axes", std::vector{along}}, {"keepdims", keep}}), 0);
  set(n, to_.add(place, {x(n)}, {{"axis", along}, {"keepdims", keep}}), 1);
}

void Translation::layer_norm(const Node& n) {
  const auto shape = integers(n, 1);
  const auto weight = constant_none(n.input(2)) ? to_.constant(at::ones(shape)) : x(n, 2);
  Names inputs{x(n), weight};
  if (!constant_none(n.input(3))) inputs.push_back(x(n, 3));
  set(n, to_.add("LayerNormalization", inputs,
                 {{"axis", -static_cast<std::int64_t>(shape.size())},
                  {"epsilon", constant(n, 4).toDouble()}}));
}

void Translation::unbind(const Node& unpack) {
  const auto& n = *unpack.input()->node();
  for (std::size_t i = 0; i < unpack.outputs().size(); ++i) {
    const auto place = to_.constant(at::full({}, static_cast<std::int64_t>(i), at::kLong));
    set(unpack, to_.add("Gather", {x(n), place}, {{"axis", axis(n.input(0), integer(n, 1))}}), i);
  }
}

const std::map<std::string, Translation::Handler>& Translation::handlers() {
  using T = Translation;
  static const std::map<std::string, Handler> all = [] {
    std::map<std::string, Handler> h;
    const std::pair<const char*, const char*> kUnary[] = {
        {"tanh", "Tanh"},       {"relu", "Relu"},
        {"sigmoid", "Sigmoid"}, {"exp", "Exp"},
        {"log", "Log"},         {"sqrt", "Sqrt"},
        {"neg", "Neg"},         {"abs", "Abs"},
        {"cos", "Cos"},         {"softplus", "Softplus"},
        {"logical_not", "Not"}, {"elu", "Elu"},
        {"floor", "Floor"},     {"reciprocal", "Reciprocal"}};
    for (const auto& [name, op] : kUnary)
      h[name] = [op = std::string(op)](T& t, const Node& n) { t.unary(n, op); };
    const std::pair<const char*, const char*> kArithmetic[] = {
        {"add", "Add"}, {"sub", "Sub"},     {"rsub", "Sub"},    {"mul", "Mul"},
        {"div", "Div"}, {"maximum", "Max"}, {"minimum", "Min"}, {"pow", "Pow"}};
    for (const auto& [name, op] : kArithmetic)
      h[name] = [op = std::string(op)](T& t, const Node& n) { t.arithmetic(n, op); };
    const std::pair<const char*, const char*> kComparisons[] = {{"eq", "Equal"},
                                                                {"lt", "Less"},
                                                                {"le", "LessOrEqual"},
                                                                {"gt", "Greater"},
                                                                {"ge", "GreaterOrEqual"}};
    for (const auto& [name, op] : kComparisons)
      h[name] = [op = std::string(op)](T& t, const Node& n) { t.comparison(n, op); };
    h["logical_and"] = [](T& t, const Node& n) { t.logic(n, "And"); };
    h["logical_or"] = [](T& t, const Node& n) { t.logic(n, "Or"); };
    h["square"] = [](T& t, const Node& n) { t.set(n, t.to_.add("Mul", {t.x(n), t.x(n)})); };
    h["rsqrt"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("Reciprocal", {t.to_.add("Sqrt", {t.x(n)})}));
    };
    h["clamp"] = [](T& t, const Node& n) { t.clip(n, t.constant(n, 1), t.constant(n, 2)); };
    h["clamp_min"] = [](T& t, const Node& n) { t.clip(n, t.constant(n, 1), {}); };
    h["clamp_max"] = [](T& t, const Node& n) { t.clip(n, {}, t.constant(n, 1)); };
    h["linear"] = &T::linear;
    h["matmul"] = h["mm"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("MatMul", {t.x(n, 0), t.x(n, 1)}));
    };
    h["addmm"] = [](T& t, const Node& n) {
      if (t.constant(n, 3).toScalar().toDouble() != 1 ||
          t.constant(n, 4).toScalar().toDouble() != 1)
        refuse_operation(n);
      t.set(n, t.to_.add("Gemm", {t.x(n, 1), t.x(n, 2), t.x(n, 0)}));
    };
    h["conv2d"] = h["_convolution"] = &T::convolution;
    h["max_pool2d"] = &T::pool;
    h["layer_norm"] = &T::layer_norm;
    h["t"] = [](T& t, const Node& n) { t.permute(n, {1, 0}); };
    h["permute"] = [](T& t, const Node& n) { t.permute(n, t.integers(n, 1)); };
    h["transpose"] = [](T& t, const Node& n) {
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < axes(n.input(0)); ++i) order.push_back(i);
      std::swap(order[static_cast<std::size_t>(axis(n.input(0), t.integer(n, 1)))],
                order[static_cast<std::size_t>(axis(n.input(0), t.integer(n, 2)))]);
      t.permute(n, order);
    };
    // 0 keeps an axis, so that the first one may have any size.
    h["flatten"] = [](T& t, const Node& n) {
      const auto from = axis(n.input(0), t.integer(n, 1)), to = axis(n.input(0), t.integer(n, 2));
      std::vector<std::int64_t> shape(static_cast<std::size_t>(from), 0);
      shape.push_back(-1);
      for (auto i = to + 1; i < axes(n.input(0)); ++i) shape.push_back(size(n.input(0), i));
      t.set(n, t.reshape(t.x(n), shape));
    };
    h["unflatten"] = [](T& t, const Node& n) {
      const auto at = axis(n.input(0), t.integer(n, 1));
      std::vector<std::int64_t> shape(static_cast<std::size_t>(at), 0);
      for (const auto size : t.integers(n, 2)) shape.push_back(size);
      for (auto i = at + 1; i < axes(n.input(0)); ++i) shape.push_back(size(n.input(0), i));
      t.set(n, t.reshape(t.x(n), shape));
    };
    h["view"] =
        h["reshape"] = [](T& t, const Node& n) { t.set(n, t.reshape(t.x(n), t.integers(n, 1))); };
    h["unsqueeze"] = [](T& t, const Node& n) {
      const auto at = t.integer(n, 1);
      t.set(n, t.to_.add("Unsqueeze", {t.x(n), t.to_.integers({axis(n.output(), at)})}));
    };
    h["squeeze"] = [](T& t, const Node& n) {
      if (n.inputs().size() != 2) refuse_operation(n);
      const auto at = axis(n.input(0), t.integer(n, 1));
      t.set(n, size(n.input(0), at) == 1 ? t.to_.add("Squeeze", {t.x(n), t.to_.integers({at})})
                                         : t.x(n));
    };
    h["cat"] = [](T& t, const Node& n) {
      Names parts;
      for (const auto* part : t.list(n, 0)) parts.push_back(t.as(part, type(n.output())));
      t.set(n, t.to_.add("Concat", parts, {{"axis", axis(n.output(), t.integer(n, 1))}}));
    };
    h["stack"] = [](T& t, const Node& n) {
      const auto at = axis(n.output(), t.integer(n, 1));
      Names parts;
      for (const auto* part : t.list(n, 0))
        parts.push_back(t.to_.add("Unsqueeze", {t.of(part), t.to_.integers({at})}));
      t.set(n, t.to_.add("Concat", parts, {{"axis", at}}));
    };
    h["narrow"] = [](T& t, const Node& n) {
      const auto from = t.integer(n, 2);
      t.set(n, t.slice(t.x(n), axis(n.input(0), t.integer(n, 1)), from, from + t.integer(n, 3)));
    };
    h["slice"] = [](T& t, const Node& n) {
      if (t.integer(n, 4) != 1) refuse_operation(n);
      t.set(n,
            t.slice(t.x(n), axis(n.input(0), t.integer(n, 1)), t.integer(n, 2), t.integer(n, 3)));
    };
    h["select"] = [](T& t, const Node& n) {
      const auto place = t.to_.constant(at::full({}, t.integer(n, 2), at::kLong));
      t.set(n, t.to_.add("Gather", {t.x(n), place}, {{"axis", axis(n.input(0), t.integer(n, 1))}}));
    };
    h["index_select"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("Gather", {t.x(n), t.x(n, 2)},
                         {{"axis", axis(n.input(0), t.integer(n, 1))}}));
    };
    h["gather"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("GatherElements", {t.x(n), t.x(n, 2)},
                         {{"axis", axis(n.input(0), t.integer(n, 1))}}));
    };
    h["argmax"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("ArgMax", {t.x(n)},
                         {{"axis", axis(n.input(0), t.integer(n, 1))},
                          {"keepdims", std::int64_t{t.constant(n, 2).toBool()}}}));
    };
    h["max"] = [](T& t, const Node& n) { t.extreme(n, "ReduceMax", "ArgMax"); };
    h["min"] = [](T& t, const Node& n) { t.extreme(n, "ReduceMin", "ArgMin"); };
    h["amax"] = [](T& t, const Node& n) { t.reduce(n, "ReduceMax"); };
    h["amin"] = [](T& t, const Node& n) { t.reduce(n, "ReduceMin"); };
    h["sum"] = [](T& t, const Node& n) { t.reduce(n, "ReduceSum"); };
    h["mean"] = [](T& t, const Node& n) { t.reduce(n, "ReduceMean"); };
    h["softmax"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("Softmax", {t.x(n)}, {{"axis", t.integer(n, 1)}}));
    };
    h["log_softmax"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("LogSoftmax", {t.x(n)}, {{"axis", t.integer(n, 1)}}));
    };
    h["cumsum"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("CumSum",
                         {t.x(n), t.to_.constant(at::full({}, t.integer(n, 1), at::kLong))}));
    };
    h["masked_fill"] = [](T& t, const Node& n) {
      const auto wanted = type(n.output());
      t.set(n, t.to_.add("Where", {t.x(n, 1), t.as(n.input(2), wanted), t.x(n)}));
    };
    h["where"] = [](T& t, const Node& n) {
      const auto wanted = type(n.output());
      t.set(n, t.to_.add("Where", {t.x(n), t.as(n.input(1), wanted), t.as(n.input(2), wanted)}));
    };
    h["empty_like"] = [](T& t, const Node& n) { t.set(n, t.x(n)); };  // for its shape
    h["full_like"] = [](T& t, const Node& n) {
      const auto value = t.number(t.constant(n, 1).toScalar().toDouble(), type(n.output()));
      t.set(n, t.to_.add("Expand", {value, t.to_.add("Shape", {t.x(n)})}));
    };
    h["expand_as"] = [](T& t, const Node& n) {
      t.set(n, t.to_.add("Expand", {t.x(n), t.to_.add("Shape", {t.x(n, 1)})}));
    };
    h["to"] = h["contiguous"] = h["detach"] = h["clone"] =
        h["alias"] = [](T& t, const Node& n) { t.set(n, t.as(n.input(0), type(n.output()))); };
    return h;
  }();
  return all;
}

void Translation::translate(const Node& node) {
  using namespace c10::prim;
  if (node.kind() == Constant || node.kind() == GetAttr || node.kind() == ListConstruct ||
      node.kind() == TupleConstruct || node.kind() == c10::aten::unbind)
    return;  // read where they are used
  if (node.kind() == ListUnpack && node.input()->node()->kind() == c10::aten::unbind)
    return unbind(node);
  const std::string_view name = node.kind().toUnqualString();
  const auto found = handlers().find(std::string(name));
  if (!node.kind().is_aten() || found == handlers().end()) refuse_operation(node);
  found->second(*this, node);
}

}  // namespace

std::string onnx(const ExportedPolicy& policy) {
  auto module = policy.attributes();
  const bool sampled = policy.can_sample();
  policy.add_trace(module, "policy", sampled);
  policy.detach(module);
  auto graph = torch::jit::toGraphFunction(module.get_method("policy").function()).graph()->copy();
  torch::jit::ConstantPropagation(graph);
  torch::jit::EliminateDeadCode(graph);

  OnnxModel model;
  Translation translation(model, module);
  const auto inputs = policy.random_inputs(1, sampled);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& name = inputs.name(i);
    if (name == "noise")
      model.optional_input(name, at::full_like(inputs[i], 0.5));
    else
      model.input(name, inputs[i]);
    translation.name(graph->inputs()[i + 1], name);  // input 0 is the module
  }
  for (const auto* node : graph->nodes()) translation.translate(*node);
  const auto outputs = policy(inputs, sampled).all();
  const auto* tuple = graph->outputs()[0]->node();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    model.output(outputs.name(i), translation.of(tuple->input(i)), outputs[i]);
  return model.serialise(kVersion, {{"env", policy.env().id}});
}

}  // namespace shoal
