#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

namespace shoal::python {

namespace py = pybind11;

py::object numpy(const char* name);

// Converts an environment's value to an array of the dtype in which it is stored, in C order.
// `declared` is the dtype of its space, `stored` one that represents all of its values. Throws
// Error for a value that does not convert to the declared dtype: fractions or NaN for integers, and
// numbers out of range. float64 numbers of a float32 space are rounded. what: "the observation
// 'image'".
py::array to_stored(const py::object& value, const py::dtype& declared, const py::dtype& stored,
                    const std::string& what);

// Converts a Python or NumPy integer. Throws Error for anything else.
std::int64_t to_integer(const py::object& value, const std::string& what);
// Converts a number or a 0-dimensional NumPy array. Throws Error for anything else.
double to_number(const py::object& value, const std::string& what);
// Converts a Python or NumPy bool. Throws Error for anything else.
bool to_bool(const py::object& value, const std::string& what);

std::string type_name(const py::handle& value);

// "None", "a list" or "an array of float32 with the shape (1,)", and the value if it is short.
std::string describe(const py::object& value);

}  // namespace shoal::python
