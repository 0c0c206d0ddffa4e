#include "conversion.h"

#include <fmt/format.h>
#include <pybind11/gil_safe_call_once.h>

#include <algorithm>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal::python {
namespace {

std::string text_of(const py::handle& value) { return std::string(py::str(value)); }

// The type of NumPy's truth values, which many environments return.
py::handle numpy_bool() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> type;
  return type.call_once_and_store_result([] { return numpy("bool_"); }).get_stored();
}

bool is_whole(const py::dtype& dtype) {
  return std::string_view("iub").find(dtype.kind()) != std::string_view::npos;
}

// Throws Error for a number that the declared integer type cannot represent.
void check_range(const py::array& found, const py::dtype& declared, const std::string& what) {
  const bool flags = declared.kind() == 'b';
  const auto* bytes = static_cast<const std::uint8_t*>(found.data());
  if (flags && found.itemsize() == 1 &&
      std::all_of(bytes, bytes + found.size(), [](auto byte) { return byte <= 1; }))
    return;  // the common case: Gymnasium's MultiBinary samples such arrays
  const py::object limits = flags ? py::none() : numpy("iinfo")(declared);
  const py::int_ lowest = flags ? py::int_(0) : py::int_(limits.attr("min"));
  const py::int_ highest = flags ? py::int_(1) : py::int_(limits.attr("max"));
  for (const auto* end : {"min", "max"}) {
    const py::int_ number = found.attr(end)().attr("item")();
    if (number < lowest || number > highest)
      throw Error("{} has the number {}, expected {}, from {} to {}", what, text_of(number),
                  text_of(declared), text_of(lowest), text_of(highest));
  }
}

[[noreturn]] void refuse_number(const std::string& what, const py::array& found,
                                const py::object& bad, const py::dtype& declared) {
  const py::object number = found.attr("flat")[numpy("argmax")(bad)];
  throw Error("{} has the number {}, which {} cannot represent", what, text_of(number),
              text_of(declared));
}

// Throws Error for an integer that would be rounded in a floating-point type.
void check_rounding(const py::array& found, const py::dtype& declared, const std::string& what) {
  const py::object rounded = numpy("not_equal")(found.attr("astype")(declared), found);
  if (rounded.attr("any")().cast<bool>()) refuse_number(what, found, rounded, declared);
}

// Throws Error for a finite number that would become infinite.
void check_overflow(const py::array& found, const py::dtype& declared, const std::string& what) {
  if (found.itemsize() <= declared.itemsize()) return;
  const py::object sizes = numpy("abs")(found), most = numpy("finfo")(declared).attr("max");
  if (sizes.attr("max")().cast<double>() <= most.cast<double>()) return;
  const py::object over =
      numpy("logical_and")(numpy("isfinite")(found), numpy("greater")(sizes, most));
  if (over.attr("any")().cast<bool>()) refuse_number(what, found, over, declared);
}

py::array as_array(const py::object& value, const std::string& what) {
  try {
    return numpy("asarray")(value, py::arg("order") = "C");
  } catch (const py::error_already_set&) {
    throw Error("{} is {}, expected an array", what, describe(value));
  }
}

}  // namespace

py::object numpy(const char* name) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::module_> module;
  return module.call_once_and_store_result([] { return py::module_::import("numpy"); })
      .get_stored()
      .attr(name);
}

std::string type_name(const py::handle& value) {
  return text_of(py::type::handle_of(value).attr("__name__"));
}

std::string describe(const py::object& value) {
  if (value.is_none()) return "None";
  std::string shown = text_of(value);
  shown = shown.size() > 40 || shown.find('\n') != std::string::npos ? "" : ", " + shown;
  if (!py::isinstance<py::array>(value))
    return fmt::format("of type {}{}", type_name(value), shown);
  const auto array = py::reinterpret_borrow<py::array>(value);
  return fmt::format("an array of {} with the shape {}{}", text_of(array.dtype()),
                     text_of(array.attr("shape")), shown);
}

py::array to_stored(const py::object& value, const py::dtype& declared, const py::dtype& stored,
                    const std::string& what) {
  const auto found = as_array(value, what);
  if (!found.dtype().equal(declared) && found.size() > 0) {
    const bool whole = is_whole(declared), real = found.dtype().kind() == 'f';
    if (!is_whole(found.dtype()) && (whole || !real))
      throw Error("{} is {}, expected numbers of {}", what, describe(found), text_of(declared));
    (whole ? check_range : real ? check_overflow : check_rounding)(found, declared, what);
  }
  return numpy("asarray")(found, py::arg("dtype") = stored, py::arg("order") = "C");
}

std::int64_t to_integer(const py::object& value, const std::string& what) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  int overflow = 0;
  const std::int64_t number =
      index ? PyLong_AsLongLongAndOverflow(index.ptr(), &overflow) : std::int64_t{0};
  PyErr_Clear();
  if (!index || overflow != 0)
    throw Error("{} is {}, expected a whole number of 64 bits", what, describe(value));
  return number;
}

double to_number(const py::object& value, const std::string& what) {
  if (PyFloat_Check(value.ptr()) != 0) return PyFloat_AS_DOUBLE(value.ptr());
  // NumPy converts an array with one element to a number, with a warning.
  const bool array = py::isinstance<py::array>(value) && value.attr("ndim").cast<int>() > 0;
  const bool text = PyUnicode_Check(value.ptr()) != 0 || PyBytes_Check(value.ptr()) != 0;
  if (!array && !text) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred() == nullptr) return number;
    PyErr_Clear();
  }
  throw Error("{} is {}, expected a number", what, describe(value));
}

bool to_bool(const py::object& value, const std::string& what) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False) return false;
  if (py::type::handle_of(value).is(numpy_bool())) return PyObject_IsTrue(value.ptr()) == 1;
  // A 0-dimensional array of a NumPy bool.
  if (py::hasattr(value, "dtype") && py::hasattr(value, "ndim") &&
      value.attr("ndim").cast<int>() == 0 && text_of(value.attr("dtype")) == "bool")
    return value.attr("item")().cast<bool>();
  // NumPy comparisons and flags are often converted to integers.
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  const auto number = index ? PyLong_AsLong(index.ptr()) : -1;
  PyErr_Clear();
  if (number == 0 || number == 1) return number == 1;
  throw Error("{} is {}, expected True or False (or 1 or 0)", what, describe(value));
}

}  // namespace shoal::python
