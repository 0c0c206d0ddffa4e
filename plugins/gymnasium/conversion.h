#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

namespace shoal::python {

namespace py = pybind11;

py::object numpy(const char* name);

// An environment's value as an array of the type in which it is stored, in C order. `declared` is
// the type of its space, `stored` one that holds all of those values. Throws Error for a value that
// is not of the declared type and does not convert to it: numbers with a fraction or NaN where
// there are integers, and numbers out of range. float64 numbers of a float32 space are rounded.
// what: "the observation 'image'".
py::array to_stored(const py::object& value, const py::dtype& declared, const py::dtype& stored,
                    const std::string& what);

// A Python integer, or one of NumPy's. Throws Error for anything else.
std::int64_t to_integer(const py::object& value, const std::string& what);
// A number, or an array of NumPy's without dimensions. Likewise.
double to_number(const py::object& value, const std::string& what);
// True or False, or NumPy's. Likewise.
bool to_bool(const py::object& value, const std::string& what);

// "None", "a list" or "an array of float32 with the shape (1,)", and the value if it is short.
std::string describe(const py::object& value);

}  // namespace shoal::python
