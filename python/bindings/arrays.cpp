// Implements looking at arrays of any library (numpy, or whatever speaks DLPack), and memory of a
// GPU that such libraries can take over.
#include "module.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <dlfcn.h>
#include <stdexcept>

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

/// An array of any library, held while it is looked at or used.
class View {
public:
  explicit View(nb::ndarray<nb::ro> array) : array_(std::move(array)) {}

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(array_.data()); }
  nb::tuple shape() const {
    nb::list extents;
    for (size_t i = 0; i < array_.ndim(); ++i)
      extents.append(array_.shape(i));
    return nb::tuple(extents);
  }
  size_t bytes() const { return array_.nbytes(); }
  /// DLPack's code and width of the element type.
  nb::tuple type() const { return nb::make_tuple(array_.dtype().code, array_.dtype().bits); }
  /// DLPack's kind and number of the device.
  nb::tuple device() const { return nb::make_tuple(array_.device_type(), array_.device_id()); }
  bool isDense() const {
    int64_t expected = 1;
    for (size_t i = array_.ndim(); i-- > 0;) {
      if (array_.shape(i) != 1 && array_.stride(i) != expected)
        return array_.size() == 0;
      expected *= int64_t(array_.shape(i));
    }
    return true;
  }

private:
  nb::ndarray<nb::ro> array_;
};

/// The driver's functions for memory and streams, of the context that is current: the generated
/// code's.
class Driver {
public:
  static Driver &get() {
    static Driver driver;
    return driver;
  }
  std::uintptr_t allocate(size_t bytes) {
    unsigned long long address = 0;
    check(allocate_(&address, bytes), "allocating memory of the GPU");
    return address;
  }
  void free(std::uintptr_t address) { free_(address); }
  void synchronize(std::uintptr_t stream) {
    check(synchronize_(reinterpret_cast<void *>(stream)), "waiting for the GPU");
  }
  /// Bytes of the GPU's memory, once all work issued to it is done; in the context that frameworks
  /// share, since none may be current.
  std::string read(std::uintptr_t address, size_t bytes, int device) {
    std::string out(bytes, '\0');
    void *context = nullptr;
    check(retain_(&context, device), "using the GPU");
    int code = push_(context);
    if (code == 0) {
      code = wait_();
      if (code == 0)
        code = copy_(out.data(), address, bytes);
      pop_(&context);
    }
    release_(device);
    check(code, "reading memory of the GPU");
    return out;
  }

private:
  Driver() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw std::runtime_error(std::string("there is no driver of NVIDIA GPUs: ") + dlerror());
    find(library, allocate_, "cuMemAlloc_v2");
    find(library, free_, "cuMemFree_v2");
    find(library, synchronize_, "cuStreamSynchronize");
    find(library, copy_, "cuMemcpyDtoH_v2");
    find(library, wait_, "cuCtxSynchronize");
    find(library, retain_, "cuDevicePrimaryCtxRetain");
    find(library, release_, "cuDevicePrimaryCtxRelease_v2");
    find(library, push_, "cuCtxPushCurrent_v2");
    find(library, pop_, "cuCtxPopCurrent_v2");
  }
  template <class Function> static void find(void *library, Function *&function, const char *name) {
    function = reinterpret_cast<Function *>(dlsym(library, name));
    if (!function)
      throw std::runtime_error(std::string("the GPU's driver has no ") + name);
  }
  static void check(int code, const char *what) {
    if (code != 0)
      throw std::runtime_error(std::string(what) + " failed (CUDA driver's error " +
                               std::to_string(code) + ")");
  }

  int (*allocate_)(unsigned long long *, size_t) = nullptr;
  int (*free_)(unsigned long long) = nullptr;
  int (*synchronize_)(void *) = nullptr;
  int (*copy_)(void *, unsigned long long, size_t) = nullptr;
  int (*wait_)() = nullptr;
  int (*retain_)(void **, int) = nullptr;
  int (*release_)(int) = nullptr;
  int (*push_)(void *) = nullptr;
  int (*pop_)(void **) = nullptr;
};

/// Memory of GPU `device` as an object with __dlpack__, which frees it.
nb::object deviceArray(const std::vector<size_t> &shape, int code, int bits, int device) {
  size_t bytes = size_t(bits) / 8;
  for (size_t extent : shape)
    bytes *= extent;
  const std::uintptr_t address = Driver::get().allocate(bytes ? bytes : 1);
  void *data = reinterpret_cast<void *>(address);
  nb::capsule owner(
      data, [](void *p) noexcept { Driver::get().free(reinterpret_cast<std::uintptr_t>(p)); });
  const nb::dlpack::dtype type{std::uint8_t(code), std::uint8_t(bits), 1};
  return nb::cast(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, type,
                                             nb::device::cuda::value, device),
                  nb::rv_policy::reference);
}

/// The first elements of such memory, under another shape.
nb::object resized(const nb::object &array, const std::vector<size_t> &shape) {
  const auto whole = nb::cast<nb::ndarray<>>(array);
  return nb::cast(nb::ndarray<nb::array_api>(whole.data(), shape.size(), shape.data(), array,
                                             nullptr, whole.dtype(), whole.device_type(),
                                             whole.device_id()),
                  nb::rv_policy::reference);
}

} // namespace

void bindArrays(nb::module_ &m) {
  nb::class_<View>(m, "View", "Where and how an array lies in memory; keeps it alive.")
      .def(nb::init<nb::ndarray<nb::ro>>(), "array"_a)
      .def_prop_ro("address", &View::address)
      .def_prop_ro("shape", &View::shape)
      .def_prop_ro("bytes", &View::bytes)
      .def_prop_ro("type", &View::type)
      .def_prop_ro("device", &View::device)
      .def_prop_ro("is_dense", &View::isDense);
  m.def("device_array", &deviceArray, "shape"_a, "code"_a, "bits"_a, "device"_a);
  m.def("resized", &resized, "array"_a, "shape"_a);
  m.def(
      "read_memory",
      [](std::uintptr_t address, size_t bytes, int device) {
        const std::string read = Driver::get().read(address, bytes, device);
        return nb::bytes(read.data(), read.size());
      },
      "address"_a, "bytes"_a, "device"_a, "Bytes of a GPU's memory.");
  m.def(
      "synchronize",
      [](std::uintptr_t stream) {
        nb::gil_scoped_release release;
        Driver::get().synchronize(stream);
      },
      "stream"_a);
}

} // namespace tenon::python
