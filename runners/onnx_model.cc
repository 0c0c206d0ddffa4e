#include "runners/onnx_model.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal {
namespace {

using protozero::pbf_tag_type;
using protozero::pbf_writer;

constexpr int kIrVersion = 8, kOperatorSet = 17;

// Field numbers, from onnx.proto.
namespace model_field {
constexpr pbf_tag_type kIr = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOperators = 8,
                       kMetadata = 14;
}
namespace graph_field {
constexpr pbf_tag_type kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_field {
constexpr pbf_tag_type kInput = 1, kOutput = 2, kOperator = 4, kAttribute = 5;
}
namespace attribute_field {
constexpr pbf_tag_type kName = 1, kFloat = 2, kInt = 3, kInts = 8, kType = 20;
constexpr int kIsFloat = 1, kIsInt = 2, kIsInts = 7;
}  // namespace attribute_field
namespace tensor_field {
constexpr pbf_tag_type kDims = 1, kType = 2, kName = 8, kData = 9;
}
// ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto, its Dimension,
// StringStringEntryProto, and OperatorSetIdProto.
namespace value_field {
constexpr pbf_tag_type kName = 1, kType = 2, kTensorType = 1, kElement = 1, kShape = 2, kDim = 1,
                       kDimValue = 1, kDimName = 2, kKey = 1, kText = 2, kOperatorVersion = 2;
}

std::string tensor_proto(const std::string& name, const at::Tensor& tensor) {
  std::string text;
  pbf_writer writer(text);
  const auto sizes = tensor.sizes();
  writer.add_packed_int64(tensor_field::kDims, sizes.begin(), sizes.end());
  writer.add_int32(tensor_field::kType,
                   static_cast<std::int32_t>(OnnxModel::type_of(tensor.scalar_type())));
  writer.add_string(tensor_field::kName, name);
  const auto data = tensor.detach().cpu().contiguous();
  writer.add_bytes(tensor_field::kData, static_cast<const char*>(data.const_data_ptr()),
                   data.nbytes());
  return text;
}

std::string value_info(const std::string& name, const at::Tensor& example,
                       const std::string& first_axis) {
  std::string shape;
  for (std::int64_t i = 0; i < example.dim(); ++i) {
    std::string dim;
    if (i == 0)
      pbf_writer(dim).add_string(value_field::kDimName, first_axis);
    else
      pbf_writer(dim).add_int64(value_field::kDimValue, example.size(i));
    pbf_writer(shape).add_message(value_field::kDim, dim);
  }
  std::string tensor, type, value;
  pbf_writer to_tensor(tensor);
  to_tensor.add_int32(value_field::kElement,
                      static_cast<std::int32_t>(OnnxModel::type_of(example.scalar_type())));
  to_tensor.add_message(value_field::kShape, shape);
  pbf_writer(type).add_message(value_field::kTensorType, tensor);
  pbf_writer to_value(value);
  to_value.add_string(value_field::kName, name);
  to_value.add_message(value_field::kType, type);
  return value;
}

std::string attribute_proto(const std::string& name, const OnnxModel::Attribute& value) {
  namespace f = attribute_field;
  std::string text;
  pbf_writer writer(text);
  writer.add_string(f::kName, name);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    writer.add_int64(f::kInt, *whole);
    writer.add_enum(f::kType, f::kIsInt);
  } else if (const auto* real = std::get_if<double>(&value)) {
    writer.add_float(f::kFloat, static_cast<float>(*real));
    writer.add_enum(f::kType, f::kIsFloat);
  } else {
    for (const auto n : std::get<std::vector<std::int64_t>>(value)) writer.add_int64(f::kInts, n);
    writer.add_enum(f::kType, f::kIsInts);
  }
  return text;
}

}  // namespace

std::int64_t OnnxModel::type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kInt:
      return 6;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kDouble:
      return 11;
    default:
      throw Error("ONNX: found a tensor of {}, which this export does not know; use TorchScript",
                  c10::toString(type));
  }
}

std::string OnnxModel::constant(const at::Tensor& tensor, const std::string& name) {
  const auto own = name.empty() ? new_name() : name;
  pbf_writer(initializers_).add_message(graph_field::kInitializer, tensor_proto(own, tensor));
  return own;
}

std::string OnnxModel::integers(const std::vector<std::int64_t>& values) {
  return constant(at::tensor(values, at::kLong));
}

std::string OnnxModel::add(const std::string& op, const std::vector<std::string>& inputs,
                           const Attributes& attributes) {
  const auto output = new_name();
  add_node(op, inputs, {output}, attributes);
  return output;
}

void OnnxModel::add_node(const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const Attributes& attributes) {
  std::string node;
  pbf_writer writer(node);
  for (const auto& name : inputs) writer.add_string(node_field::kInput, name);
  for (const auto& name : outputs) writer.add_string(node_field::kOutput, name);
  writer.add_string(node_field::kOperator, op);
  for (const auto& [name, value] : attributes)
    writer.add_message(node_field::kAttribute, attribute_proto(name, value));
  pbf_writer(graph_nodes_).add_message(graph_field::kNode, node);
}

void OnnxModel::input(const std::string& name, const at::Tensor& example) {
  pbf_writer(inputs_).add_message(graph_field::kInput, value_info(name, example, "N"));
}

void OnnxModel::optional_input(const std::string& name, const at::Tensor& otherwise) {
  pbf_writer(inputs_).add_message(graph_field::kInput, value_info(name, otherwise, "N or 1"));
  constant(otherwise, name);
}

void OnnxModel::output(const std::string& name, const std::string& value,
                       const at::Tensor& example) {
  add_node("Identity", {value}, {name}, {});
  pbf_writer(outputs_).add_message(graph_field::kOutput, value_info(name, example, "N"));
}

std::string OnnxModel::serialise(const std::string& producer_version,
                                 const std::map<std::string, std::string>& metadata) const {
  std::string name, operators, text;
  pbf_writer(name).add_string(graph_field::kName, "policy");
  pbf_writer(operators).add_int64(value_field::kOperatorVersion,
                                  kOperatorSet);  // of the default domain
  pbf_writer writer(text);
  writer.add_int64(model_field::kIr, kIrVersion);
  writer.add_string(model_field::kProducer, "shoal");
  writer.add_string(model_field::kProducerVersion, producer_version);
  writer.add_message(model_field::kGraph, graph_nodes_ + name + initializers_ + inputs_ + outputs_);
  writer.add_message(model_field::kOperators, operators);
  for (const auto& [key, value] : metadata) {
    std::string entry;
    pbf_writer to_entry(entry);
    to_entry.add_string(value_field::kKey, key);
    to_entry.add_string(value_field::kText, value);
    writer.add_message(model_field::kMetadata, entry);
  }
  return text;
}

}  // namespace shoal
