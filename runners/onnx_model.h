#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shoal {

// Builds the protocol buffer ModelProto of ONNX (onnx.proto), operator set 17. Values are named;
// functions return the names of what they add.
class OnnxModel {
 public:
  using Attribute = std::variant<std::int64_t, double, std::vector<std::int64_t>>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;

  // A constant; `name` must be new. Equal small constants are not merged.
  std::string constant(const at::Tensor& tensor, const std::string& name = "");
  std::string integers(const std::vector<std::int64_t>& values);
  // An operator with one output.
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {});

  // Inputs and outputs: the first axis has any size.
  void input(const std::string& name, const at::Tensor& example);
  // An input that callers may leave out; it then has this value.
  void optional_input(const std::string& name, const at::Tensor& otherwise);
  void output(const std::string& name, const std::string& value, const at::Tensor& example);

  // The serialised model. metadata: pairs of texts that tools display.
  std::string serialise(const std::string& producer_version,
                        const std::map<std::string, std::string>& metadata) const;

  static std::int64_t type_of(at::ScalarType type);  // TensorProto.DataType

 private:
  std::string new_name() { return "v" + std::to_string(names_++); }
  void add_node(const std::string& op, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const Attributes& attributes);

  std::string graph_nodes_, initializers_, inputs_, outputs_;  // encoded fields of GraphProto
  std::int64_t names_ = 0;
};

}  // namespace shoal
