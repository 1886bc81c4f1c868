// Says which GPUs programs that this machine builds would run on: a line "gpu CAPABILITY NAME" for
// each, CAPABILITY being 10 times the compute capability, or "none REASON". The compiler itself is
// static and loads no driver. The counterpart is tools/Devices.cpp.
#include <dlfcn.h>
#include <stdio.h>

namespace {

constexpr int kMajor = 75, kMinor = 76; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

template <class F> bool find(void *library, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

int none(const char *reason) {
  printf("none %s\n", reason);
  return 0;
}

} // namespace

int main() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library)
    return none("no CUDA driver is installed (libcuda.so.1)");
  int (*init)(unsigned), (*count_of)(int *), (*get)(int *, int), (*name_of)(char *, int, int),
      (*attribute)(int *, int, int), (*message_of)(int, const char **);
  if (!find(library, "cuInit", init) || !find(library, "cuDeviceGetCount", count_of) ||
      !find(library, "cuDeviceGet", get) || !find(library, "cuDeviceGetName", name_of) ||
      !find(library, "cuDeviceGetAttribute", attribute) ||
      !find(library, "cuGetErrorString", message_of))
    return none("libcuda.so.1 is no CUDA driver");
  int count = 0, code = init(0);
  if (code == 0)
    code = count_of(&count);
  if (code != 0) {
    const char *message = nullptr;
    message_of(code, &message);
    printf("none the CUDA driver says: %s\n", message ? message : "an unknown error");
    return 0;
  }
  if (count == 0)
    return none("the CUDA driver knows no GPU");
  for (int i = 0; i < count; ++i) {
    int device = 0, major = 0, minor = 0;
    char name[256] = "";
    if (get(&device, i) == 0 && name_of(name, sizeof name, device) == 0 &&
        attribute(&major, kMajor, device) == 0 && attribute(&minor, kMinor, device) == 0)
      printf("gpu %d %s\n", 10 * major + minor, name);
  }
  return 0;
}
